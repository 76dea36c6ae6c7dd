//! The report in a real browser. Ignored unless asked for, since it needs Chromium and its driver:
//! `cargo test --workspace --test browser -- --ignored`. With `EDGEDYNO_TEST_PICTURES=DIR` the pages are
//! also kept there as pictures, to be looked at.

use std::path::{Path, PathBuf};
use std::process::Command;

use edgedyno_tests::commands::small_model;
use edgedyno_tests::skip::{self, Need};
use edgedyno_tests::webdriver::Browser;
use edgedyno_tests::{Sandbox, assets};
use regex::Regex;
use serde_json::{Value, json};

const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";
const RIGHT: &str = "\u{e014}";

/// The accessibility engine: package, file, and the hash of that file.
const AXE: [&str; 3] = [
    "axe-core@4.14.1",
    "axe.min.js",
    "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c",
];

/// A4 without its margins of a centimetre, at 96 dots an inch.
const PAPER_WIDTH: u32 = 718;

/// A telephone and a screen.
const WIDTHS: [u32; 2] = [360, 1440];

fn sweep(sandbox: &Sandbox, tag: &str) {
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
        "--axis",
        "option.phases=3",
        "--axis",
        "option.steps=4",
        "--warmup",
        "5",
        "--trials",
        "40",
        "--repeat",
        "2",
        "--tag",
        tag,
    ];
    sandbox.edgedyno(line);
}

/// An experiment with a load, as short as one can be; none where there is no CPU for it.
fn load(sandbox: &Sandbox) -> bool {
    if !skip::has(&[Need::Cpus(2)]) {
        return false;
    }
    small_model(sandbox);
    let line = "stress small.onnx --backend fake --working-set 8MiB --warmup 2 --duration 200ms \
                --settle 100ms --force --levels 30,60,100 --stressor mem_copy --repeat 3 --tag load";
    sandbox.edgedyno(line.split_whitespace());
    true
}

/// A page of each kind: of a sweep with the cases of an axis against each other, of two runs, of a load.
fn pages(sandbox: &Sandbox) -> Vec<PathBuf> {
    let mut lines = vec![
        "report first --between option.latency_us=300,400 --output sweep.html",
        "report first second --compare --output two.html",
    ];
    sweep(sandbox, "first");
    sweep(sandbox, "second");
    if load(sandbox) {
        lines.push("report load first --output load.html");
    }
    let pages = lines.into_iter().map(|line| {
        sandbox.edgedyno(line.split(' ')).ok();
        let name = line.rsplit(' ').next().expect("a line has words");
        sandbox.work().join(name)
    });
    pages.collect()
}

/// Opens a page of each kind on a telephone and on a screen, and looks at each: its name, and how wide it is.
fn at_every_width(look: impl Fn(&Browser, &str, u32)) {
    let sandbox = Sandbox::new();
    let pages = pages(&sandbox);
    let browser = Browser::start().unwrap();
    for page in &pages {
        for width in WIDTHS {
            browser.width(width).unwrap();
            browser.open(page).unwrap();
            look(&browser, &name_of(page), width);
        }
    }
}

/// A browser that shows the report of a small sweep.
fn shown(sandbox: &Sandbox) -> Browser {
    sweep(sandbox, "first");
    sandbox.edgedyno(["report", "last"]).ok();
    let browser = Browser::start().unwrap();
    browser.open(&sandbox.work().join("report.html")).unwrap();
    browser
}

fn is_here(further: &[&'static str]) -> bool {
    let programs = ["chromium", "chromedriver"].iter().chain(further);
    let needs: Vec<Need> = programs.map(|name| Need::Program(name)).collect();
    skip::has(&needs)
}

fn name_of(page: &Path) -> String {
    page.file_stem().unwrap().to_string_lossy().into_owned()
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
    if !is_here(&[]) {
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
    let left = column(&browser, "option.latency_us");
    assert_eq!(left, [300.0, 300.0]);

    let drawing = "document.querySelector('figure .drawing')";
    browser.script(&format!("{drawing}.focus();")).unwrap();
    browser.keys(RIGHT).unwrap();
    let said = "return document.querySelector('figure output').textContent;";
    let said = browser.script(said).unwrap();
    assert!(said.as_str().unwrap().contains("p50"), "{said}");
    assert_eq!(browser.console().unwrap(), [] as [String; 0]);
}

/// The first key leads past the contents, and every further one to something that shows it has the focus.
#[test]
#[ignore = "needs Chromium and its driver"]
fn a_reader_without_a_mouse_comes_through_the_page() {
    if !is_here(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let browser = shown(&sandbox);
    browser.keys(TAB).unwrap();
    let here = "return document.activeElement.textContent.trim();";
    assert_eq!(browser.script(here).unwrap(), "Skip to the content");
    browser.keys(ENTER).unwrap();
    let mut seen = Vec::new();
    for _ in 0..40 {
        browser.keys(TAB).unwrap();
        let found = browser.script(
            "const node = document.activeElement, box = node.getBoundingClientRect();
             return [node.tagName + (node.id ? '#' + node.id : ''), getComputedStyle(node).outlineStyle,
                     box.bottom > 0 && box.top < innerHeight, !!node.closest('main')];",
        );
        let found = found.unwrap();
        assert!(found[1] != "none" && found[2] == true, "{found}");
        seen.push(found);
    }
    assert_eq!(seen[0][3], true, "past the contents: {}", seen[0]);
}

#[test]
#[ignore = "needs Chromium and its driver"]
fn pages_fit_a_telephone_and_a_screen() {
    if !is_here(&[]) {
        return;
    }
    at_every_width(|browser, name, width| {
        let found = browser
            .script("return document.documentElement.scrollWidth;")
            .unwrap();
        assert!(
            found.as_u64().unwrap() <= u64::from(width),
            "{name} is {found} wide on {width}"
        );
        assert_eq!(browser.console().unwrap(), [] as [String; 0], "{name}");
        keep_pictures(browser, &format!("{name}-{width}"));
    });
}

/// Tables that are wider than the boxes they stand in, by what they are called.
const TOO_WIDE: &str = "
    return [...document.querySelectorAll('.table')]
      .filter((box) => box.scrollWidth > box.clientWidth)
      .map((box) => `${box.getAttribute('aria-label')}: ${box.scrollWidth} in ${box.clientWidth}`);";

/// Tables that reach out of the page, or whose first column has room for single letters only.
const TOO_NARROW: &str = "
    return [...document.querySelectorAll('.table')]
      .filter((box) => getComputedStyle(box).overflowX !== 'auto'
        || box.getBoundingClientRect().right > innerWidth
        || [...box.querySelectorAll('tbody th')].some((cell) => cell.clientWidth < 32))
      .map((box) => box.getAttribute('aria-label'));";

/// On a screen every table is seen whole; on a telephone it scrolls within its box, and its columns keep room
/// for words. Paper has no scroll bar.
#[test]
#[ignore = "needs Chromium and its driver"]
fn tables_fit_a_screen_and_paper_and_scroll_on_a_telephone() {
    if !is_here(&[]) {
        return;
    }
    at_every_width(|browser, name, width| {
        let none = |script: &str, at: &str| {
            assert_eq!(browser.script(script).unwrap(), json!([]), "{name} {at}");
        };
        if width == WIDTHS[0] {
            none(TOO_NARROW, "on a telephone");
        } else {
            none(TOO_WIDE, "on a screen");
            browser.paper(PAPER_WIDTH).unwrap();
            none(TOO_WIDE, "on paper");
            browser.prefer("light").unwrap();
        }
    });
}

/// Both themes of the page as it stands, where somebody asked for pictures.
fn keep_pictures(browser: &Browser, name: &str) {
    let Some(folder) = std::env::var_os("EDGEDYNO_TEST_PICTURES") else {
        return;
    };
    std::fs::create_dir_all(&folder).unwrap();
    for theme in ["light", "dark"] {
        browser.prefer(theme).unwrap();
        let file = format!("{name}-{theme}.png");
        browser.picture(&Path::new(&folder).join(file)).unwrap();
    }
    browser.prefer("light").unwrap();
}

/// What a reader goes by who does not see the page, or sees it badly.
#[test]
#[ignore = "needs Chromium and its driver"]
fn an_accessibility_engine_finds_nothing() {
    if !is_here(&["npm"]) {
        return;
    }
    let engine = match assets::npm(AXE[0], AXE[1], AXE[2]) {
        Ok(file) => std::fs::read_to_string(file).unwrap(),
        Err(why) => return skip::skip(Need::Package, format!("{why:#}")),
    };
    at_every_width(|browser, name, width| {
        // What is folded away is read too.
        browser
            .script("for (const node of document.querySelectorAll('details')) node.open = true;")
            .unwrap();
        browser.script(&engine).unwrap();
        for theme in ["light", "dark"] {
            browser.prefer(theme).unwrap();
            let found = browser.awaited(
                "const done = arguments[arguments.length - 1];
                 axe.run({ resultTypes: ['violations'] }).then((all) => done({
                   rules: all.passes.length,
                   bad: all.violations.map((one) =>
                     one.id + ': ' + one.nodes.slice(0, 4).map((node) => node.html.slice(0, 160)).join(' | ')),
                 }));",
            );
            let found = found.unwrap();
            let of = format!("{name} at {width}, {theme}");
            assert_eq!(found["bad"], json!([]), "{of}");
            assert!(found["rules"].as_u64().unwrap() >= 20, "{of}: {found}");
        }
    });
}

/// The engine passes over drawings; their texts must stand out all the same (WCAG 2.1, 1.4.3), and what
/// they are drawn with must be seen (1.4.11).
#[test]
#[ignore = "needs Chromium and its driver"]
fn drawings_stand_out_from_their_paper_in_both_themes() {
    if !is_here(&[]) {
        return;
    }
    let sandbox = Sandbox::new();
    let pages = pages(&sandbox);
    let browser = Browser::start().unwrap();
    for page in &pages {
        browser.open(page).unwrap();
        for theme in ["light", "dark"] {
            browser.prefer(theme).unwrap();
            let found = browser.script(CONTRASTS).unwrap();
            assert_eq!(found, json!([]), "{} in {theme}", name_of(page));
        }
    }
}

/// Names every class of a drawing's texts and marks with too little contrast to what lies below it.
const CONTRASTS: &str = "
    const light = (colour) => {
      const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
        const value = part / 255;
        return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
    };
    const contrast = (a, b) => {
      const pair = [light(a), light(b)].sort((x, y) => y - x);
      return (pair[0] + 0.05) / (pair[1] + 0.05);
    };
    const paper = getComputedStyle(document.body).backgroundColor;
    const bad = new Set();
    const look = (node, colour, least) => {
      if (colour === 'none') return;
      const found = contrast(colour, paper);
      if (found < least) bad.add(`${node.tagName}.${node.getAttribute('class')} ${colour} ${found.toFixed(2)}`);
    };
    for (const node of document.querySelectorAll('svg text')) {
      // Text on a coloured field has that field as its paper.
      const on = node.getAttribute('class').startsWith('on-');
      if (!on) look(node, getComputedStyle(node).fill, 4.5);
    }
    for (const node of document.querySelectorAll('svg path, svg circle, svg rect')) {
      const name = node.getAttribute('class');
      if (/^(grid|paper|h\\d|band)$/.test(name)) continue;
      const style = getComputedStyle(node);
      look(node, node.tagName === 'path' ? style.stroke : style.fill, 3);
    }
    return [...bad];";

/// Where each word of a printed page stands, in points: page, text, left and right.
fn printed_words(pdf: &Path) -> Vec<(usize, String, f64, f64)> {
    let output = Command::new("pdftotext")
        .arg("-bbox")
        .arg(pdf)
        .arg("-")
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    let word = Regex::new("<word xMin=\"([-.0-9]+)\".* xMax=\"([-.0-9]+)\".*>(.*)</word>").unwrap();
    let mut page = 0;
    let mut words = Vec::new();
    for line in text.lines() {
        page += usize::from(line.contains("<page "));
        if let Some(found) = word.captures(line) {
            let [left, right] = [1, 2].map(|at| found[at].parse::<f64>().unwrap());
            words.push((page, found[3].to_owned(), left, right));
        }
    }
    words
}

/// Width of A4 in points.
const PAPER: f64 = 595.0;

#[test]
#[ignore = "needs Chromium and its driver"]
fn pages_are_printed_without_a_cut_figure() {
    if !is_here(&["pdftotext", "base64"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let pages = pages(&sandbox);
    let browser = Browser::start().unwrap();
    for page in &pages {
        browser.open(page).unwrap();
        // A reader may have chosen a theme; paper is white.
        browser
            .script("document.documentElement.dataset.theme = 'dark';")
            .unwrap();
        let pdf = page.with_extension("pdf");
        browser.print(&pdf).unwrap();
        let words = printed_words(&pdf);
        let name = name_of(page);
        assert!(words.len() > 500, "{name}: {}", words.len());
        for (at, word, left, right) in &words {
            assert!(
                *left >= 0.0 && *right <= PAPER,
                "{name}, page {at}: {word} from {left} to {right}"
            );
        }
        for (figure, texts) in drawn_texts(&browser) {
            let whole = (1..=words.last().unwrap().0).any(|at| {
                let here: Vec<&str> = words
                    .iter()
                    .filter(|word| word.0 == at)
                    .map(|word| word.1.as_str())
                    .collect();
                texts.iter().all(|text| here.contains(&text.as_str()))
            });
            assert!(
                whole,
                "{name}: {figure} is not whole on any page: {texts:?}"
            );
        }
    }
}

/// The words of each figure that stand upright.
fn drawn_texts(browser: &Browser) -> Vec<(String, Vec<String>)> {
    let found = browser
        .script(
            "return [...document.querySelectorAll('figure')].map((figure) => [figure.id,
               [...figure.querySelectorAll('svg text:not([transform])')]
                 .flatMap((text) => text.textContent.split(/\\s+/)).filter((word) => /^[\\w.]+$/.test(word))]);",
        )
        .unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let figures = found.as_array().unwrap().iter();
    let figures = figures.map(|figure| {
        let words = figure[1].as_array().unwrap().iter().map(text);
        (text(&figure[0]), words.collect())
    });
    figures.collect()
}
