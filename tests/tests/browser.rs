//! The report in a real browser. Ignored unless asked for, since it needs Chromium and its driver:
//! `cargo test --workspace --test browser -- --ignored`.

use edgedyno_tests::Sandbox;
use edgedyno_tests::commands::small_model;
use edgedyno_tests::skip::{self, Need};
use edgedyno_tests::webdriver::Browser;
use serde_json::json;

const ENTER: &str = "\u{e007}";
const RIGHT: &str = "\u{e014}";

/// A browser that shows the report of a small sweep.
fn shown(sandbox: &Sandbox) -> Browser {
    small_model(sandbox);
    let line = [
        "sweep",
        "small.onnx",
        "--axis",
        "backend=fake",
        "--axis",
        "option.latency_us=400,300,500",
        "--axis",
        "threads=1,2",
        "--warmup",
        "5",
        "--trials",
        "40",
        "--repeat",
        "2",
    ];
    sandbox.edgedyno(line);
    sandbox.edgedyno(["report", "last"]).ok();
    let browser = Browser::start().unwrap();
    browser.open(&sandbox.work().join("report.html")).unwrap();
    browser
}

fn is_here() -> bool {
    skip::has(&[Need::Program("chromium"), Need::Program("chromedriver")])
}

/// Numbers that the table of cases is sorted by in one column, from the top.
fn column(browser: &Browser, title: &str) -> Vec<f64> {
    let script = format!(
        "const table = document.querySelector('#cases table');
         const at = [...table.tHead.rows[0].cells].findIndex((head) => head.textContent === '{title}');
         return [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => Number(row.cells[at].dataset.v));"
    );
    let found = browser.script(&script).unwrap();
    let numbers = found.as_array().unwrap().iter();
    numbers.map(|number| number.as_f64().unwrap()).collect()
}

fn focus_head(browser: &Browser, title: &str) {
    let script = format!(
        "const heads = [...document.querySelectorAll('#cases thead button')];
         heads.find((head) => head.textContent === '{title}').focus();"
    );
    browser.script(&script).unwrap();
}

#[test]
#[ignore = "needs Chromium and its driver"]
fn a_page_is_sorted_filtered_and_read_by_keyboard_without_an_error() {
    if !is_here() {
        return;
    }
    let sandbox = Sandbox::new();
    let browser = shown(&sandbox);
    focus_head(&browser, "p50");
    browser.keys(ENTER).unwrap();
    let up = column(&browser, "p50");
    assert_eq!(up.len(), 6);
    assert!(up.is_sorted(), "{up:?}");
    browser.keys(ENTER).unwrap();
    let down = column(&browser, "p50");
    assert!(down.is_sorted_by(|a, b| a >= b), "{down:?}");

    browser
        .script("document.querySelector('#cases input[type=search]').focus();")
        .unwrap();
    browser.keys("300").unwrap();
    let left = column(&browser, "p50");
    assert!(left.len() >= 2 && left.len() < 6, "{left:?}");

    let drawing = "document.querySelector('figure .drawing')";
    browser.script(&format!("{drawing}.focus();")).unwrap();
    browser.keys(RIGHT).unwrap();
    let said = "return document.querySelector('figure output').textContent;";
    let said = browser.script(said).unwrap();
    assert!(said.as_str().unwrap().contains("p50"), "{said}");
    assert_eq!(browser.console().unwrap(), [] as [String; 0]);
}

#[test]
#[ignore = "needs Chromium and its driver"]
fn a_page_fits_a_telephone_and_a_screen() {
    if !is_here() {
        return;
    }
    let sandbox = Sandbox::new();
    let browser = shown(&sandbox);
    for width in [360, 1440] {
        browser.width(width).unwrap();
        let found = browser
            .script("return document.documentElement.scrollWidth;")
            .unwrap();
        assert!(
            found.as_u64().unwrap() <= u64::from(width),
            "{found} at {width}"
        );
    }
}

/// What a reader who does not see the page goes by: names, labels, one heading above the other.
#[test]
#[ignore = "needs Chromium and its driver"]
fn everything_has_a_name_and_enough_contrast() {
    if !is_here() {
        return;
    }
    let sandbox = Sandbox::new();
    let browser = shown(&sandbox);
    let nameless = browser
        .script(
            "const bad = [];
             for (const input of document.querySelectorAll('input')) if (!input.labels.length) bad.push('input');
             for (const svg of document.querySelectorAll('svg[role=img]'))
               for (const id of svg.getAttribute('aria-labelledby').split(' '))
                 if (!document.getElementById(id)) bad.push(id);
             for (const button of document.querySelectorAll('button')) if (!button.textContent) bad.push('button');
             const levels = [...document.querySelectorAll('h1,h2,h3')].map((head) => Number(head.tagName[1]));
             levels.forEach((level, at) => { if (at && level > levels[at - 1] + 1) bad.push('h' + level); });
             return bad;",
        )
        .unwrap();
    assert_eq!(nameless, json!([]));
    for theme in ["light", "dark"] {
        let found = browser
            .script(&format!(
                "document.documentElement.dataset.theme = '{theme}';
                 const light = (colour) => {{
                   const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {{
                     const value = part / 255;
                     return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
                   }});
                   return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
                 }};
                 const paper = (node) => {{
                   const colour = getComputedStyle(node).backgroundColor;
                   return colour.startsWith('rgba(0, 0, 0, 0') && node.parentElement ? paper(node.parentElement) : colour;
                 }};
                 let least = 21;
                 for (const node of document.querySelectorAll('p, li, th, td, figcaption, a, h1, h2, button, code')) {{
                   const pair = [light(getComputedStyle(node).color), light(paper(node))].sort((a, b) => b - a);
                   least = Math.min(least, (pair[0] + 0.05) / (pair[1] + 0.05));
                 }}
                 return least;"
            ))
            .unwrap();
        // WCAG 2.1, 1.4.3.
        assert!(found.as_f64().unwrap() >= 4.5, "{found} in {theme}");
    }
}

#[test]
#[ignore = "needs Chromium and its driver"]
fn a_page_is_printed() {
    if !is_here() {
        return;
    }
    let sandbox = Sandbox::new();
    let browser = shown(&sandbox);
    let pdf = browser.print().unwrap();
    // `%PDF` in base64.
    assert!(pdf.starts_with("JVBER"), "{}", &pdf[..20]);
    assert!(pdf.len() > 20_000, "{}", pdf.len());
}
