//! From a definition to a sweep that can be ordered: boards asked, models read, cases resolved.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use edgedyno_shared::case::{Case, InputPolicy, ModelRef, NamedShape};
use edgedyno_shared::device::DeviceInfo;
use edgedyno_shared::ids::Sha256;
use edgedyno_shared::order::OutputWish;

use crate::board::Board;
use crate::board::content::Content;
use crate::cli::Global;
use crate::cmd::run::inventory::{Inquiry, find_board};
use crate::cmd::run::prepare::{Chosen, Model, check_model, choose, read_model, wish};
use crate::cmd::{block_on, here};
use crate::contention::limit::Limit;
use crate::exit::CommandError;
use crate::options::inputs::{InputOptions, PolicyChoice};
use crate::options::lease::LeaseOptions;
use crate::plan::axes::case_key;
use crate::plan::check;
use crate::plan::feed::{Feed, Unpacked};
use crate::plan::fixed::Conduct;
use crate::plan::goal::Goal;
use crate::plan::schedule::{Schedule, Sentinel};
use crate::plan::sweep::expand::expand;
use crate::plan::sweep::resolve::{
    ChosenRuntime, Grounds, Resolved, RuntimeKey, TenantOf, file_of, resolve, tenant_terms,
    tenants_of,
};
use crate::plan::sweep::{Definition, Filter, InputWish, Point, Tolerance, fits};
use crate::plan::tenant;
use crate::store::Store;

/// A sweep that can be ordered.
#[derive(Debug)]
pub(in crate::cmd) struct Prepared {
    pub(in crate::cmd) name: Option<String>,
    pub(in crate::cmd) devices: BTreeMap<String, DeviceInfo>,
    pub(in crate::cmd) cases: Vec<Planned>,
    pub(in crate::cmd) conduct: Conduct,
    pub(in crate::cmd) schedule: Schedule,
    pub(in crate::cmd) goal: Option<Goal>,
    /// What conditions are held to when the run is read.
    pub(in crate::cmd) slo: Option<Limit>,
    /// Cases whose outputs others are compared with; none when nothing is compared.
    pub(in crate::cmd) references: Option<Vec<Sha256>>,
    pub(in crate::cmd) tolerance: Tolerance,
    pub(in crate::cmd) contents: Vec<Content>,
    pub(in crate::cmd) unpacked: Vec<Unpacked>,
    pub(in crate::cmd) libraries: Vec<Library>,
    pub(in crate::cmd) note: Option<String>,
    pub(in crate::cmd) lease: LeaseOptions,
}

/// A case with its key, and shapes that were brought to a multiple as they were asked for.
#[derive(Debug, Clone)]
pub(in crate::cmd) struct Planned {
    pub(in crate::cmd) key: Sha256,
    pub(in crate::cmd) case: Case,
    pub(in crate::cmd) aligned_from: Vec<NamedShape>,
}

impl Planned {
    fn new(case: Case) -> Self {
        Self {
            key: case_key(&case),
            case,
            aligned_from: Vec::new(),
        }
    }
}

/// A library that an agent must have looked at before cases name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cmd) struct Library {
    pub(in crate::cmd) board: String,
    pub(in crate::cmd) backend: String,
    pub(in crate::cmd) path: String,
}

pub(in crate::cmd) fn prepare(
    definition: &Definition,
    global: &Global,
) -> Result<Prepared, CommandError> {
    let points = expand(definition).map_err(|why| {
        CommandError::usage(why.to_string()).hint("docs/plans.md tells how axes combine")
    })?;
    let folder = Store::find_or_new(global.store(), &here()?).join("inputs");
    let feed = Feed::resolve(&input_options(&definition.inputs), &folder)?;
    let of_tenants = points.iter().flat_map(tenant_terms);
    let of_tenants = of_tenants.map(|(_, runtime)| runtime);
    let keys: Vec<RuntimeKey> = distinct(points.iter().map(RuntimeKey::of).chain(of_tenants));
    let (devices, found) = ask_boards(definition, &keys)?;
    let chosen = chosen_runtimes(&devices, &found);
    let models = read_models(definition, &points, &chosen)?;
    let references = models.iter();
    let references: BTreeMap<PathBuf, ModelRef> = references
        .map(|(path, model)| (path.clone(), model.reference.clone()))
        .collect();
    let grounds = Grounds {
        devices: &devices,
        chosen: &chosen,
        models: &references,
        inputs: &feed.spec,
    };
    let resolved = resolve(definition, &points, &grounds)?;
    check_models(&resolved, &models, &found)?;
    let mut contents: Vec<Content> = models.into_values().map(|model| model.content).collect();
    contents.extend(feed.contents);
    let resolved = keyed(resolved, &points);
    let most = definition.within.map_or(0, |within| within.max_repeats);
    check::repeats(resolved.len(), definition.repeats.max(most))?;
    let baselines = tenant::baselines(resolved.iter().map(|(planned, _)| &planned.case));
    let baselines = baselines.into_iter().map(Planned::new);
    Ok(Prepared {
        name: definition.name.clone(),
        schedule: schedule(definition, &resolved)?,
        references: references_of(definition, &resolved)?,
        tolerance: definition.tolerance,
        goal: definition.goal.clone(),
        slo: None,
        conduct: conduct(definition),
        cases: resolved
            .into_iter()
            .map(|(planned, _)| planned)
            .chain(baselines)
            .collect(),
        devices,
        contents,
        unpacked: feed.unpacked,
        libraries: libraries(&found),
        note: found.values().find_map(|chosen| chosen.note.clone()),
        lease: LeaseOptions::default(),
    })
}

/// Few of very many: one by one, because collecting a set sorts all that it is given.
fn distinct<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut known = BTreeSet::new();
    for item in items {
        known.insert(item);
    }
    known.into_iter().collect()
}

fn input_options(wish: &InputWish) -> InputOptions {
    let policy = |policy: InputPolicy| match policy {
        InputPolicy::Fixed => PolicyChoice::Fixed,
        InputPolicy::Cycle => PolicyChoice::Cycle,
        InputPolicy::Fresh => PolicyChoice::Fresh,
    };
    InputOptions {
        inputs: wish.files.clone(),
        input_policy: wish.policy.map(policy),
        generator: wish.generator.clone(),
        seed: wish.seed,
    }
}

type Found = BTreeMap<RuntimeKey, Chosen>;

/// What every board says of itself, and what each runtime asked for is there.
fn ask_boards(
    definition: &Definition,
    keys: &[RuntimeKey],
) -> Result<(BTreeMap<String, DeviceInfo>, Found), CommandError> {
    let mut devices = BTreeMap::new();
    let mut found = Found::new();
    for name in distinct(keys.iter().map(|key| key.board.as_str())) {
        let board = find_board(name).map_err(|why| definition.located("board", Some(name), why))?;
        let of_board = keys.iter().filter(|key| key.board == name);
        block_on(async {
            let mut inquiry = Inquiry::open(&board).await?;
            let device = inquiry.device().await?;
            for key in of_board {
                let named = key.backend.as_deref();
                let at = |why| match &key.runtime {
                    Some(runtime) => definition.located("runtime", Some(runtime), why),
                    None => definition.located("backend", named, why),
                };
                let wish = wish(key.runtime.as_deref(), named, board.is_remote()).map_err(at)?;
                // A runtime named beside several backends is meant for those that load one.
                let is_built_in = device
                    .backends
                    .iter()
                    .any(|b| b.built_in && Some(b.name.as_str()) == named);
                let wish = wish.filter(|_| !is_built_in);
                let chosen = choose((name, &device), named, wish.as_ref(), &mut inquiry).await;
                let chosen = chosen.map_err(at)?;
                found.insert(key.clone(), chosen);
            }
            devices.insert(name.to_owned(), device);
            Ok(())
        })?;
    }
    Ok((devices, found))
}

fn chosen_runtimes(
    devices: &BTreeMap<String, DeviceInfo>,
    found: &Found,
) -> BTreeMap<RuntimeKey, ChosenRuntime> {
    let formats = |key: &RuntimeKey, backend: &str| {
        let device = devices.get(&key.board);
        let info = device.and_then(|d| d.backends.iter().find(|b| b.name == backend));
        info.map_or_else(Vec::new, |info| info.formats.clone())
    };
    let chosen = found.iter().map(|(key, chosen)| {
        let runtime = ChosenRuntime {
            backend: chosen.backend.clone(),
            runtime: chosen.runtime.as_ref().map(|(_, runtime)| runtime.clone()),
            formats: formats(key, &chosen.backend),
        };
        (key.clone(), runtime)
    });
    chosen.collect()
}

/// Every model file that some case needs, read and hashed once.
fn read_models(
    definition: &Definition,
    points: &[Point],
    chosen: &BTreeMap<RuntimeKey, ChosenRuntime>,
) -> Result<BTreeMap<PathBuf, Model>, CommandError> {
    let used = points.iter();
    let used = used.filter_map(|point| Some((point.get("model")?, RuntimeKey::of(point))));
    let used: Vec<(&String, RuntimeKey)> = distinct(used);
    let mut models = BTreeMap::new();
    for (name, key) in used {
        let Some(files) = definition.models.get(name) else {
            continue;
        };
        let at = |why| definition.located("model", Some(name), why);
        let path = file_of(name, files, &chosen[&key]).map_err(at)?;
        if !models.contains_key(path) {
            models.insert(path.to_owned(), read_model(path).map_err(at)?);
        }
    }
    let mut named: BTreeMap<String, PathBuf> = BTreeMap::new();
    for point in points {
        for TenantOf { term, path, .. } in tenants_of(definition, point, chosen)? {
            let known = named.entry(term.model.clone()).or_insert(path.clone());
            if *known != path {
                return Err(two_of_one_name(&term.model, known, &path));
            }
            if !models.contains_key(&path) {
                models.insert(path.clone(), read_model(&path)?);
            }
        }
    }
    Ok(models)
}

/// Results name a model by its file's name: two would pass for one.
fn two_of_one_name(name: &str, a: &Path, b: &Path) -> CommandError {
    let what = format!("two models of conditions are called `{name}`");
    CommandError::usage(what)
        .cause(format!("`{}` and `{}`", a.display(), b.display()))
        .hint("give one of them another file name")
}

/// What the file can tell before anything is ordered: whether it is a model and takes the batch.
fn check_models(
    resolved: &[Resolved],
    models: &BTreeMap<PathBuf, Model>,
    found: &Found,
) -> Result<(), CommandError> {
    let simulated = |backend: &str| {
        let chosen = found.values().find(|chosen| chosen.backend == backend);
        chosen.is_some_and(|chosen| chosen.simulated)
    };
    let real = resolved.iter().filter(|r| !simulated(&r.case.backend));
    for (path, batch) in distinct(real.map(|r| (r.model.as_path(), r.case.batch))) {
        let path: &Path = path;
        if let Some(model) = models.get(path) {
            check_model(model, batch)?;
        }
    }
    let tenants = resolved
        .iter()
        .flat_map(|r| r.case.tenants.iter().zip(&r.tenants));
    let tenants = tenants.filter(|(tenant, _)| !simulated(&tenant.backend));
    for path in distinct(tenants.map(|(_, path)| path.as_path())) {
        if let Some(model) = models.get(path) {
            check_model(model, None)?;
        }
    }
    Ok(())
}

/// Cases with their keys, each once. Shapes that become one by their multiple are one case, which keeps
/// what was asked for in each.
fn keyed(resolved: Vec<Resolved>, points: &[Point]) -> Vec<(Planned, &Point)> {
    let mut places: HashMap<Sha256, usize> = HashMap::with_capacity(resolved.len());
    let mut all: Vec<(Planned, &Point)> = Vec::with_capacity(resolved.len());
    for resolved in resolved {
        let key = case_key(&resolved.case);
        if let Some(at) = places.get(&key) {
            let known = &mut all[*at].0.aligned_from;
            let new = resolved.aligned_from.into_iter();
            let new: Vec<NamedShape> = new.filter(|shape| !known.contains(shape)).collect();
            known.extend(new);
            continue;
        }
        places.insert(key, all.len());
        let planned = Planned {
            key,
            case: resolved.case,
            aligned_from: resolved.aligned_from,
        };
        all.push((planned, &points[resolved.point]));
    }
    all
}

fn schedule(
    definition: &Definition,
    cases: &[(Planned, &Point)],
) -> Result<Schedule, CommandError> {
    let sentinel = definition.sentinel.as_ref().map(|wish| {
        let found = cases.iter().find(|(_, point)| fits(point, &wish.case));
        let (planned, _) = found.ok_or_else(|| no_case("the sentinel", &wish.case))?;
        Ok::<_, CommandError>(Sentinel {
            case: planned.key,
            every: wish.every,
        })
    });
    Ok(Schedule {
        order: definition.order,
        max_attempts: Some(definition.max_attempts),
        time_budget: definition.time_budget,
        within: definition.within,
        sentinel: sentinel.transpose()?,
        stop_on_oom: stop_axes(definition),
        keeps_outputs: definition.reference.is_some() && cases.len() > 1,
        ..Schedule::default()
    })
}

/// Axes by the names that cases know them by.
fn stop_axes(definition: &Definition) -> Vec<String> {
    let axes = definition.axes.iter().filter(|axis| axis.stop_on_oom);
    let name = |name: &String| match name.strip_prefix("param.") {
        Some(parameter) => format!("parameter.{parameter}"),
        None => name.clone(),
    };
    axes.map(|axis| name(&axis.name)).collect()
}

fn references_of(
    definition: &Definition,
    cases: &[(Planned, &Point)],
) -> Result<Option<Vec<Sha256>>, CommandError> {
    let Some(filter) = definition.reference.as_ref().filter(|_| cases.len() > 1) else {
        return Ok(None);
    };
    if filter.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let fitting = cases.iter().filter(|(_, point)| fits(point, filter));
    let keys: Vec<Sha256> = fitting.map(|(planned, _)| planned.key).collect();
    match keys.is_empty() {
        true => Err(no_case("the reference", filter)),
        false => Ok(Some(keys)),
    }
}

fn no_case(what: &str, filter: &Filter) -> CommandError {
    let wanted = filter
        .iter()
        .map(|(axis, values)| format!("{axis}={}", values.join("|")));
    let wanted: Vec<String> = wanted.collect();
    CommandError::usage(format!("no case fits {what}: {}", wanted.join(", ")))
        .hint("`--dry-run` lists the cases")
}

fn conduct(definition: &Definition) -> Conduct {
    Conduct {
        repeats: definition.repeats,
        rules: definition.rules.clone(),
        limits: definition.limits.clone(),
        cold: definition.cold,
        outputs: OutputWish {
            save: false,
            reference: Vec::new(),
        },
        telemetry: definition.telemetry,
        preparation: definition.preparation.clone(),
        seed: definition.seed,
    }
}

fn libraries(found: &Found) -> Vec<Library> {
    let mut out: Vec<Library> = Vec::new();
    for (key, chosen) in found {
        let Some((path, _)) = &chosen.runtime else {
            continue;
        };
        let library = Library {
            board: key.board.clone(),
            backend: chosen.backend.clone(),
            path: path.clone(),
        };
        if !out.contains(&library) {
            out.push(library);
        }
    }
    out
}
