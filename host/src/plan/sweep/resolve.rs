//! From points to cases, once boards, models and runtimes are known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use edgedyno_shared::case::{
    Case, Condition as Named, InputSpec, Io, ModelRef, NamedShape, RuntimeRef, Scenario, Threads,
};
use edgedyno_shared::device::{Cpu, DeviceInfo};

use super::axis::{self, GAP};
use super::file::model_name;
use super::{Definition, ModelFiles, Point};
use crate::board::local;
use crate::exit::CommandError;
use crate::plan::axes::{cpu_list, dims};
use crate::plan::check;
use crate::plan::condition::Condition;
use crate::plan::tenant::{self, TenantTerm};

/// Which runtime a point asks for, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuntimeKey {
    pub board: String,
    pub backend: Option<String>,
    pub runtime: Option<String>,
}

/// What was chosen for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenRuntime {
    pub backend: String,
    pub runtime: Option<RuntimeRef>,
    /// File name endings that the backend reads; none reads anything.
    pub formats: Vec<String>,
}

/// What points are resolved with.
#[derive(Debug)]
pub struct Grounds<'a> {
    pub devices: &'a BTreeMap<String, DeviceInfo>,
    pub chosen: &'a BTreeMap<RuntimeKey, ChosenRuntime>,
    pub models: &'a BTreeMap<PathBuf, ModelRef>,
    pub inputs: &'a InputSpec,
}

/// A case, the number of the point it comes from, and shapes that were brought to a multiple, as they were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    pub case: Case,
    pub point: usize,
    pub model: PathBuf,
    /// Files of the case's tenants, in their order.
    pub tenants: Vec<PathBuf>,
    pub aligned_from: Vec<NamedShape>,
}

impl RuntimeKey {
    pub fn of(point: &Point) -> Self {
        Self {
            board: board_of(point).to_owned(),
            backend: point.get("backend").cloned(),
            runtime: point.get("runtime").cloned(),
        }
    }
}

/// A model that a point's condition names, by the file of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantOf {
    pub term: TenantTerm,
    pub runtime: RuntimeKey,
    pub path: PathBuf,
}

/// Runtimes that the tenants of a point ask for, with what each of them is written as.
pub fn tenant_terms(point: &Point) -> Vec<(TenantTerm, RuntimeKey)> {
    let text = point.get("condition").map_or("", String::as_str);
    if !text.contains(tenant::PREFIX) {
        return Vec::new();
    }
    let condition = Condition::stored(text).unwrap_or_default();
    let options = family(point, axis::TENANT_OPTION);
    let of = |mut term: TenantTerm| {
        for (key, value) in &options {
            term.set_option(key, value);
        }
        let same = RuntimeKey::of(point);
        let is_other = term.backend.is_some() && term.backend != same.backend;
        let runtime = RuntimeKey {
            board: same.board,
            backend: term.backend.clone().or(same.backend),
            runtime: match &term.runtime {
                Some(runtime) => Some(runtime.clone()),
                None if is_other => None,
                None => same.runtime,
            },
        };
        (term, runtime)
    };
    condition.tenants.into_iter().map(of).collect()
}

/// The tenants of a point with their files, in the order that their names give.
pub fn tenants_of(
    definition: &Definition,
    point: &Point,
    chosen: &BTreeMap<RuntimeKey, ChosenRuntime>,
) -> Result<Vec<TenantOf>, CommandError> {
    let of = |(mut term, key): (TenantTerm, RuntimeKey)| {
        let runtime = chosen.get(&key).ok_or_else(|| not_looked_for(&key))?;
        let path = match definition.models.get(&term.model) {
            Some(files) => file_of(&term.model, files, runtime)?.to_owned(),
            None => {
                let path = definition.folder.join(&term.model);
                term.model = model_name(&path).ok_or_else(|| {
                    CommandError::usage(format!("`{}` names no file", path.display()))
                })?;
                path
            }
        };
        Ok(TenantOf {
            term,
            runtime: key,
            path,
        })
    };
    let tenants = tenant_terms(point).into_iter().map(of);
    let mut tenants: Vec<TenantOf> = tenants.collect::<Result<_, CommandError>>()?;
    tenants.sort_by_key(|tenant| tenant.term.to_string());
    Ok(tenants)
}

fn not_looked_for(key: &RuntimeKey) -> CommandError {
    CommandError::usage(format!("no runtime was looked for on board {}", key.board))
}

/// Writes the tenants into a case: by name into its condition, by content beside it.
fn add_tenants(
    case: &mut Case,
    tenants: &[TenantOf],
    grounds: &Grounds<'_>,
) -> Result<(), CommandError> {
    let mut condition = Condition::parse(&case.condition.0).map_err(CommandError::usage)?;
    condition.tenants = tenants.iter().map(|tenant| tenant.term.clone()).collect();
    condition.sort();
    case.condition = Named(condition.to_string());
    for tenant in tenants {
        let runtime = grounds.chosen.get(&tenant.runtime);
        let runtime = runtime.ok_or_else(|| not_looked_for(&tenant.runtime))?;
        let path = &tenant.path;
        let reference = grounds.models.get(path).ok_or_else(|| not_read(path))?;
        let model = ModelRef {
            name: tenant.term.model.clone(),
            sha256: reference.sha256,
        };
        case.tenants.push(
            tenant
                .term
                .resolved(model, &runtime.backend, runtime.runtime.clone()),
        );
    }
    Ok(())
}

fn not_read(path: &Path) -> CommandError {
    CommandError::usage(format!("model `{}` was not read", path.display()))
}

/// The board of a point; this machine where no axis names one.
pub fn board_of(point: &Point) -> &str {
    point.get("board").map_or(local::NAME, String::as_str)
}

/// The file of a model for a backend: by the backend's name, else by what it reads.
pub fn file_of<'a>(
    name: &str,
    files: &'a ModelFiles,
    runtime: &ChosenRuntime,
) -> Result<&'a Path, CommandError> {
    let files = match files {
        ModelFiles::One(path) => return Ok(path),
        ModelFiles::ByFormat(files) => files,
    };
    let by = |wanted: &str| files.iter().find(|(format, _)| format == wanted);
    let reads = || runtime.formats.iter().find_map(|format| by(format));
    let any = || files.first().filter(|_| runtime.formats.is_empty());
    let found = by(&runtime.backend).or_else(reads).or_else(any);
    found.map(|(_, path)| path.as_path()).ok_or_else(|| {
        let there: Vec<&str> = files.iter().map(|(format, _)| format.as_str()).collect();
        let what = format!("model `{name}` has no file for backend {}", runtime.backend);
        CommandError::usage(what).hint(format!(
            "it reads {}, and the model has {}",
            runtime.formats.join(", "),
            there.join(", ")
        ))
    })
}

/// The cases of all points, in their order; `cpus = \"each\"` makes several of one.
pub fn resolve(
    definition: &Definition,
    points: &[Point],
    grounds: &Grounds<'_>,
) -> Result<Vec<Resolved>, CommandError> {
    let mut out = Vec::with_capacity(points.len());
    for (number, point) in points.iter().enumerate() {
        let (mut case, model, aligned_from) = case_of(definition, point, grounds)?;
        let tenants = tenants_of(definition, point, grounds.chosen)?;
        add_tenants(&mut case, &tenants, grounds)?;
        let tenants: Vec<PathBuf> = tenants.into_iter().map(|tenant| tenant.path).collect();
        let device = device(grounds, point)?;
        let at = |axis: &'static str| {
            let value = point.get(axis).map(String::as_str);
            move |why| definition.located(axis, value, why)
        };
        let condition = Condition::parse(&case.condition.0).map_err(CommandError::usage)?;
        let beside: Vec<u16> = condition.cpus().collect();
        check::cpus(device, &beside).map_err(at("condition"))?;
        for cpus in cpu_sets(device, point).map_err(at("cpus"))? {
            if let Some(cpus) = &cpus {
                check::cpus(device, cpus).map_err(at("cpus"))?;
            }
            out.push(Resolved {
                case: Case {
                    cpus,
                    ..case.clone()
                },
                point: number,
                model: model.clone(),
                tenants: tenants.clone(),
                aligned_from: aligned_from.clone(),
            });
        }
    }
    Ok(out)
}

type CaseOf = (Case, PathBuf, Vec<NamedShape>);

fn case_of(
    definition: &Definition,
    point: &Point,
    grounds: &Grounds<'_>,
) -> Result<CaseOf, CommandError> {
    let text = |axis: &str| point.get(axis).map(String::as_str);
    let number = |axis: &str| text(axis).and_then(|value| value.parse().ok());
    refuse_unbuilt(definition, point)?;
    let key = RuntimeKey::of(point);
    let runtime = grounds
        .chosen
        .get(&key)
        .ok_or_else(|| not_looked_for(&key))?;
    let name = text("model").unwrap_or_default();
    let files = definition.models.get(name).ok_or_else(|| {
        CommandError::usage("a case has no model").hint("add `model` to the axes")
    })?;
    let path = file_of(name, files, runtime)?;
    let reference = grounds.models.get(path).ok_or_else(|| not_read(path))?;
    let (shapes, aligned_from) = shapes(definition, point)?;
    let case = Case {
        board: key.board,
        model: ModelRef {
            // One name for the files of all formats, so that backends can be compared.
            name: name.to_owned(),
            sha256: reference.sha256,
        },
        backend: runtime.backend.clone(),
        runtime: runtime.runtime.clone(),
        options: family(point, "option"),
        parameters: family(point, "param"),
        shapes,
        batch: number("batch"),
        threads: Threads {
            intra: number("threads").unwrap_or(1),
            inter: number("inter_threads").unwrap_or(1),
        },
        cpus: None,
        precision: text("precision").map(str::to_owned),
        scenario: Scenario::Single,
        io: match text("io") {
            Some("transfer") => Io::Transfer,
            _ => Io::Resident,
        },
        condition: text("condition").map_or_else(Named::idle, |c| Named(c.into())),
        tenants: Vec::new(),
        inputs: grounds.inputs.clone(),
    };
    Ok((case, path.to_owned(), aligned_from))
}

/// What no agent of this version would do is known before an order is sent.
fn refuse_unbuilt(definition: &Definition, point: &Point) -> Result<(), CommandError> {
    if let Some(value) = point.get("precision") {
        let error = CommandError::usage("no backend of this version has a precision to choose")
            .hint("leave `precision` out; name files of other precisions as other models");
        return Err(definition.located("precision", Some(value), error));
    }
    let of_tenants = |name: &String| name.starts_with(axis::TENANT_OPTION);
    if point.keys().any(of_tenants) && !point.contains_key("condition") {
        let what = "options of tenants are asked for where no condition names a model";
        return Err(CommandError::usage(what).hint("such as condition = \"model:b.onnx:cpu1\""));
    }
    let other = |axis: &str| axis.strip_prefix("param.").is_some_and(|name| name != GAP);
    if let Some((axis, value)) = point.iter().find(|(axis, _)| other(axis)) {
        let error = CommandError::usage("no workload of this version takes a parameter but `gap`")
            .hint("what a backend can be told are options: option.KEY");
        return Err(definition.located(axis, Some(value), error));
    }
    Ok(())
}

fn family(point: &Point, family: &str) -> Vec<(String, String)> {
    let below = |(axis, value): (&String, &String)| {
        let key = axis.strip_prefix(family)?.strip_prefix('.')?;
        Some((key.to_owned(), value.clone()))
    };
    point.iter().filter_map(below).collect()
}

/// Shapes to measure, and those of them that were asked for otherwise.
fn shapes(
    definition: &Definition,
    point: &Point,
) -> Result<(Vec<NamedShape>, Vec<NamedShape>), CommandError> {
    let (mut shapes, mut aligned_from) = (Vec::new(), Vec::new());
    for (input, value) in family(point, "shape") {
        let asked: Vec<u64> = match value.as_str() {
            "scalar" => Vec::new(),
            value => value
                .split('x')
                .filter_map(|size| size.parse().ok())
                .collect(),
        };
        let name = format!("shape.{input}");
        let axis = definition.axes.iter().find(|axis| axis.name == name);
        let taken = match axis.and_then(|axis| axis.align) {
            None => asked.clone(),
            Some(align) => align.apply(&asked).map_err(|why| {
                let what = format!("shape {} of input `{input}`: {why}", dims(&asked));
                let error = CommandError::usage(what)
                    .hint("align it with mode floor or ceil, or ask for another shape");
                definition.located(&name, Some(&value), error)
            })?,
        };
        if taken != asked {
            aligned_from.push(NamedShape {
                input: input.clone(),
                dims: asked,
            });
        }
        shapes.push(NamedShape { input, dims: taken });
    }
    Ok((shapes, aligned_from))
}

fn device<'a>(grounds: &Grounds<'a>, point: &Point) -> Result<&'a DeviceInfo, CommandError> {
    let board = board_of(point);
    let device = grounds.devices.get(board);
    device.ok_or_else(|| CommandError::usage(format!("board {board} was not asked")))
}

/// CPU sets of a point: one, or one for each CPU.
fn cpu_sets(device: &DeviceInfo, point: &Point) -> Result<Vec<Option<Vec<u16>>>, CommandError> {
    let allowed = || device.allowed_cpus.iter();
    match point.get("cpus").map(String::as_str) {
        None => Ok(vec![None]),
        Some("each") => Ok(allowed().map(|cpu| Some(vec![*cpu])).collect()),
        Some(word @ ("big" | "little")) => Ok(vec![Some(cluster(device, word)?)]),
        Some(list) => {
            let list = crate::options::parse::cpus(list).map_err(CommandError::usage)?;
            Ok(vec![Some(list.0)])
        }
    }
}

/// The fastest or slowest CPUs of a board that has both.
fn cluster(device: &DeviceInfo, word: &str) -> Result<Vec<u16>, CommandError> {
    let cpus = device.cpus.iter();
    let allowed: Vec<&Cpu> = cpus
        .filter(|cpu| device.allowed_cpus.contains(&cpu.id))
        .collect();
    let speeds = || allowed.iter().filter_map(|cpu| cpu.max_khz);
    let (slowest, fastest) = (speeds().min(), speeds().max());
    if slowest == fastest {
        let what = format!("there are no {word} CPUs on this board");
        return Err(CommandError::usage(what)
            .cause("its CPUs do not differ in their highest clock, or do not tell it")
            .hint(format!(
                "name them by number: it has {}",
                cpu_list(&device.allowed_cpus)
            )));
    }
    let wanted = if word == "big" { fastest } else { slowest };
    let of_speed = allowed.iter().filter(|cpu| cpu.max_khz == wanted);
    Ok(of_speed.map(|cpu| cpu.id).collect())
}

#[cfg(test)]
mod tests {
    use edgedyno_shared::case::{Generator, InputPolicy, InputSource};
    use edgedyno_shared::ids::{BootId, BuildId, Sha256};

    use super::super::expand::expand;
    use super::super::expand::tests::definition;
    use super::*;

    fn board(clocks: &[Option<u64>]) -> DeviceInfo {
        let cpu = |(id, max_khz): (u16, &Option<u64>)| Cpu {
            id,
            online: Some(true),
            max_khz: *max_khz,
        };
        DeviceInfo {
            agent_version: String::new(),
            build: BuildId(String::new()),
            boot: BootId(1),
            os: String::new(),
            arch: String::new(),
            cpus: (0..).zip(clocks).map(cpu).collect(),
            allowed_cpus: (0..clocks.len() as u16).collect(),
            memory_total: None,
            readiness: edgedyno_shared::device::Readiness::default(),
            facts: Vec::new(),
            backends: Vec::new(),
        }
    }

    fn cases(text: &str, device: DeviceInfo) -> Result<Vec<Resolved>, CommandError> {
        let definition = definition(text);
        let points = expand(&definition).unwrap();
        let devices = BTreeMap::from([("local".into(), device)]);
        let runtime = |formats: &[&str], backend: &str| ChosenRuntime {
            backend: backend.into(),
            runtime: None,
            formats: formats.iter().map(|f| (*f).to_owned()).collect(),
        };
        let key = |point| (RuntimeKey::of(point), runtime(&["onnx"], "rten"));
        let chosen = points.iter().map(key).collect();
        let reference = ModelRef {
            name: "m.onnx".into(),
            sha256: Sha256([1; 32]),
        };
        let models = ["m.onnx", "a.onnx", "a.tflite"].map(|m| (m.into(), reference.clone()));
        let inputs = InputSpec {
            source: InputSource::Generated {
                generator: Generator::Normal,
                seed: 1,
            },
            policy: InputPolicy::Fixed,
        };
        let grounds = Grounds {
            devices: &devices,
            chosen: &chosen,
            models: &BTreeMap::from(models),
            inputs: &inputs,
        };
        resolve(&definition, &points, &grounds)
    }

    fn cpus_of(text: &str, clocks: &[Option<u64>]) -> Vec<String> {
        let text = format!("[axes]\nmodel = 'm.onnx'\ncpus = {text}");
        let resolved = cases(&text, board(clocks)).unwrap();
        let list = |r: &Resolved| cpu_list(r.case.cpus.as_deref().unwrap_or_default());
        resolved.iter().map(list).collect()
    }

    #[test]
    fn cpus_are_chosen_by_what_the_board_is() {
        let clocks = [Some(2), Some(3), Some(2), Some(3)];
        assert_eq!(cpus_of("'each'", &clocks), ["0", "1", "2", "3"]);
        assert_eq!(
            cpus_of("['big', 'little', '0-1']", &clocks),
            ["1,3", "0,2", "0-1"]
        );
    }

    #[test]
    fn a_board_without_clusters_has_no_big_cpus() {
        for clocks in [[None, None], [Some(2), Some(2)]] {
            let text = "[axes]\nmodel = 'm.onnx'\ncpus = 'big'";
            let error = cases(text, board(&clocks)).unwrap_err();
            assert!(error.what.contains("no big CPUs"), "{error:?}");
            assert!(error.hint.unwrap().contains("it has 0-1"));
        }
        let outside = cases("[axes]\nmodel = 'm.onnx'\ncpus = '9'", board(&[None]));
        assert!(outside.unwrap_err().what.contains("CPU 9"));
    }

    #[test]
    fn a_shape_keeps_what_was_asked_beside_what_is_measured() {
        let text = "[axes]\nmodel = 'm.onnx'\n\
                    shape.x = {values = ['1x3x384x518', '1x3x28x28'], align = {multiple = 14, mode = 'floor'}}";
        let found = cases(text, board(&[None])).unwrap();
        assert_eq!(found[0].case.shapes[0].dims, [1, 3, 378, 518]);
        assert_eq!(found[0].aligned_from[0].dims, [1, 3, 384, 518]);
        assert!(found[1].aligned_from.is_empty());
        let text = text.replace("floor", "error");
        let error = cases(&text, board(&[None])).unwrap_err();
        assert!(error.what.contains("384 is no multiple of 14"), "{error:?}");
    }

    #[test]
    fn a_backend_gets_the_file_that_it_reads() {
        let model = "{name = 'net', tflite = 'a.tflite', onnx = 'a.onnx'}";
        let found = cases(&format!("[axes]\nmodel = {model}"), board(&[None])).unwrap();
        assert_eq!(found[0].model, Path::new("a.onnx"));
        assert_eq!(found[0].case.model.name, "net");
        let text = "[axes]\nmodel = {name = 'net', tflite = 'a.tflite'}";
        let error = cases(text, board(&[None])).unwrap_err();
        assert!(error.what.contains("no file for backend rten"), "{error:?}");
    }

    #[test]
    fn axes_become_the_parts_of_a_case() {
        let text = "[axes]\nmodel = 'm.onnx'\nthreads = 4\ninter_threads = 2\nbatch = 8\nio = 'transfer'\n\
                    option.a = 1\noption.b.c = 'x'";
        let case = cases(text, board(&[None])).unwrap()[0].case.clone();
        assert_eq!((case.threads.intra, case.threads.inter), (4, 2));
        assert_eq!((case.batch, case.io), (Some(8), Io::Transfer));
        let option = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(case.options, [option("a", "1"), option("b.c", "x")]);
    }

    #[test]
    fn what_is_not_built_is_refused_before_an_order_is_sent() {
        for axis in ["precision = 'int8'", "param.tokens = 64"] {
            let text = format!("[axes]\nmodel = 'm.onnx'\n{axis}");
            assert!(
                cases(&text, board(&[None]))
                    .unwrap_err()
                    .what
                    .contains("this version")
            );
        }
    }
}
