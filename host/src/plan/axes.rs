//! Axes of a case as names and values, and the two keys made of them.

use std::borrow::Cow;

use edgedyno_shared::case::{Case, Generator, InputSource, NamedShape, Tenant};
use edgedyno_shared::ids::Sha256;
use serde_json::{Value, json};
use sha2::Digest;

/// Names and values of a case, sorted by name; an axis that was left open is not listed.
pub fn axes(case: &Case) -> Vec<(String, String)> {
    let pairs = pairs(case).into_iter();
    pairs
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}

/// The axes of a case, borrowed where they stand as text already: a plan of a hundred thousand cases asks
/// each for them.
fn pairs(case: &Case) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    fn borrowed(text: &str) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(text))
    }
    let owned = |text: Option<String>| text.map(Cow::Owned);
    let known = [
        ("backend", borrowed(&case.backend)),
        ("batch", owned(case.batch.map(|batch| batch.to_string()))),
        ("board", borrowed(&case.board)),
        ("condition", borrowed(&case.condition.0)),
        ("cpus", owned(case.cpus.as_deref().map(cpu_list))),
        ("input_policy", borrowed(case.inputs.policy.name())),
        ("inputs", owned(Some(inputs(case)))),
        ("inter_threads", owned(Some(case.threads.inter.to_string()))),
        ("io", borrowed(case.io.name())),
        ("model", borrowed(&case.model.name)),
        ("precision", case.precision.as_deref().and_then(borrowed)),
        (
            "runtime",
            case.runtime.as_ref().and_then(|r| borrowed(&r.version)),
        ),
        ("scenario", owned(Some(scenario(case)))),
        ("threads", owned(Some(case.threads.intra.to_string()))),
    ];
    let known = known.into_iter();
    let mut out: Vec<_> = known
        .filter_map(|(name, value)| Some((Cow::Borrowed(name), value?)))
        .collect();
    let families = [("option", &case.options), ("parameter", &case.parameters)];
    for (family, members) in families {
        let name = |key| Cow::Owned(format!("{family}.{key}"));
        out.extend(
            members
                .iter()
                .map(|(key, value)| (name(key), value.as_str().into())),
        );
    }
    let shape = |s: &NamedShape| (format!("shape.{}", s.input).into(), dims(&s.dims).into());
    out.extend(case.shapes.iter().map(shape));
    out.sort();
    out
}

/// The key by names and axis values only: the same for a rebuilt model of the same name.
pub fn match_key(case: &Case) -> Sha256 {
    hash(&axes_text(case))
}

/// The key that a resumed run goes by: contents count as well as names.
pub fn case_key(case: &Case) -> Sha256 {
    let files = match &case.inputs.source {
        InputSource::Generated { .. } => Value::Null,
        InputSource::Files { sets } => sets
            .iter()
            .map(|set| {
                set.iter()
                    .map(|f| json!([f.input, f.sha256.to_string()]))
                    .collect()
            })
            .collect::<Vec<Value>>()
            .into(),
    };
    let runtime = case.runtime.as_ref().map(|r| r.sha256.to_string());
    hash(&format!(
        r#"{{"axes":{},"inputs":{files},"model":"{}","runtime":{}{}}}"#,
        axes_text(case),
        case.model.sha256,
        json!(runtime),
        tenants_text(case),
    ))
}

/// What tenants hold, whose names are in the condition; nothing where there are none.
fn tenants_text(case: &Case) -> String {
    if case.tenants.is_empty() {
        return String::new();
    }
    let tenant = |tenant: &Tenant| {
        let runtime = tenant.runtime.as_ref().map(|r| r.sha256.to_string());
        json!([tenant.model.sha256.to_string(), tenant.backend, runtime])
    };
    let tenants: Vec<Value> = case.tenants.iter().map(tenant).collect();
    format!(r#","tenants":{}"#, Value::from(tenants))
}

/// CPU numbers as a list of ranges: `0-3,7`.
pub fn cpu_list(cpus: &[u16]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let ranges = sorted
        .chunk_by(|a, b| a + 1 == *b)
        .map(|range| match range {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        });
    ranges.collect::<Vec<_>>().join(",")
}

/// Dimensions as people write them: `1x3x224x224`.
pub fn dims(dims: &[u64]) -> String {
    let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
    dims.join("x")
}

fn scenario(case: &Case) -> String {
    use edgedyno_shared::case::Scenario;
    match case.scenario {
        Scenario::Concurrent { streams } => format!("concurrent:{streams}"),
        Scenario::Rate { millihertz } => format!("rate:{}", millihertz as f64 / 1e3),
        _ => case.scenario.name().to_owned(),
    }
}

fn inputs(case: &Case) -> String {
    match &case.inputs.source {
        InputSource::Files { sets } => format!("files:{}", sets.len()),
        InputSource::Generated { generator, seed } => {
            format!("{}:seed={seed}", generator_name(generator))
        }
    }
}

/// A generator as the command line names it.
pub fn generator_name(generator: &Generator) -> String {
    match generator {
        Generator::Normal => "normal".into(),
        Generator::Uniform => "uniform".into(),
        Generator::Zeros => "zeros".into(),
        Generator::Integers { low, high } => format!("int:{low}..{high}"),
    }
}

/// The canonical form: JSON without white space, members in the order given, which is sorted. Written
/// directly: plans of a hundred thousand cases are keyed while their user waits.
fn axes_text(case: &Case) -> String {
    let mut out = String::with_capacity(256);
    for (name, value) in pairs(case) {
        out.push(if out.is_empty() { '{' } else { ',' });
        push_text(&mut out, &name);
        out.push(':');
        push_text(&mut out, &value);
    }
    out.push('}');
    out
}

fn push_text(out: &mut String, text: &str) {
    let is_plain = |c: u8| (0x20..0x7f).contains(&c) && c != b'"' && c != b'\\';
    match text.bytes().all(is_plain) {
        true => {
            out.push('"');
            out.push_str(text);
            out.push('"');
        }
        false => out.push_str(&Value::from(text).to_string()),
    }
}

fn hash(text: &str) -> Sha256 {
    Sha256(sha2::Sha256::digest(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixed::tests::case;
    use edgedyno_shared::case::RuntimeRef;

    #[test]
    fn contents_change_the_key_and_not_the_match_key() {
        let old = case(1);
        let mut new = case(1);
        new.model.sha256 = Sha256([9; 32]);
        assert_eq!(match_key(&old), match_key(&new));
        assert_ne!(case_key(&old), case_key(&new));
    }

    #[test]
    fn every_axis_changes_both_keys() {
        type Change = fn(&mut Case);
        let changes: [Change; 8] = [
            |c| c.threads.intra = 7,
            |c| c.batch = Some(4),
            |c| c.cpus = Some(vec![1]),
            |c| c.backend = "null".into(),
            |c| c.options.push(("a".into(), "b".into())),
            |c| c.parameters.push(("a".into(), "b".into())),
            |c| c.io = edgedyno_shared::case::Io::Transfer,
            |c| {
                c.runtime = Some(RuntimeRef {
                    version: "1.2".into(),
                    sha256: Sha256([1; 32]),
                });
            },
        ];
        let mut seen = vec![(match_key(&case(1)), case_key(&case(1)))];
        for change in changes {
            let mut changed = case(1);
            change(&mut changed);
            let keys = (match_key(&changed), case_key(&changed));
            assert!(seen.iter().all(|s| s.0 != keys.0 && s.1 != keys.1));
            seen.push(keys);
        }
    }

    #[test]
    fn the_match_key_is_that_of_known_text() {
        let text = axes_text(&case(1));
        assert_eq!(
            text,
            r#"{"backend":"fake","board":"local","condition":"idle","input_policy":"fixed","inputs":"normal:seed=1","inter_threads":"1","io":"resident","model":"m","scenario":"single","threads":"1"}"#
        );
    }

    /// Names from a model may hold anything; what is hashed is JSON all the same.
    #[test]
    fn the_canonical_form_is_json_whatever_names_hold() {
        let mut odd = case(1);
        odd.model.name = "a\"b\\c\nd\u{e9}".into();
        odd.options.push(("\u{1}".into(), "x".into()));
        let pairs = axes(&odd).into_iter();
        let value = Value::Object(pairs.map(|(name, value)| (name, value.into())).collect());
        assert_eq!(axes_text(&odd), value.to_string());
    }

    #[test]
    fn cpus_read_as_ranges() {
        assert_eq!(cpu_list(&[3, 0, 1, 2, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!(cpu_list(&[]), "");
    }
}
