//! The order of the search, in file trees made for each test.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use edgedyno_sys::vendor::search::{Origin, Surroundings, Wanted, candidates, first_usable};
use tempfile::TempDir;

const WANTED: Wanted = Wanted {
    variables: &["TEST_LIBRARY", "OTHER_LIBRARY"],
    files: &["libvendor.so"],
    folders: &["/usr/vendor/lib"],
    python_folders: &["vendor/capi"],
};

#[test]
fn places_are_listed_in_the_documented_order() {
    let tree = Tree::new(&[
        "/home/u/.local/lib/python3.9/site-packages/vendor/capi/libvendor.so.1",
        "/home/u/.local/lib/python3.11/site-packages/vendor/capi/libvendor.so.1",
        "/home/u/.pyenv/versions/3.12.1/lib/python3.12/site-packages/vendor/capi/libvendor.so",
        "/usr/lib/python3/dist-packages/vendor/capi/libvendor.so",
        "/usr/local/lib/python3.11/dist-packages/vendor/capi/libvendor.so",
        "/venv/lib/python3.11/site-packages/vendor/capi/libvendor.so.1.32.0",
        "/cache/libvendor.so",
        "/usr/vendor/lib/libvendor.so",
        "/usr/lib/libvendor.so.3",
        "/first/libvendor.so",
    ]);
    let around = tree.with(&[
        ("HOME", "/home/u"),
        ("VIRTUAL_ENV", "/venv"),
        ("LD_LIBRARY_PATH", ":/none:/first"),
    ]);

    let found = tree.listed(&candidates(&WANTED, None, &["/cache".into()], &around));

    let expected = [
        ("/first/libvendor.so", Origin::LibraryPath),
        ("/usr/lib/libvendor.so.3", Origin::System),
        ("/usr/vendor/lib/libvendor.so", Origin::System),
        ("/cache/libvendor.so", Origin::Cache),
        (
            "/venv/lib/python3.11/site-packages/vendor/capi/libvendor.so.1.32.0",
            Origin::Python,
        ),
        (
            "/home/u/.local/lib/python3.11/site-packages/vendor/capi/libvendor.so.1",
            Origin::Python,
        ),
        (
            "/home/u/.local/lib/python3.9/site-packages/vendor/capi/libvendor.so.1",
            Origin::Python,
        ),
        (
            "/home/u/.pyenv/versions/3.12.1/lib/python3.12/site-packages/vendor/capi/libvendor.so",
            Origin::Python,
        ),
        (
            "/usr/local/lib/python3.11/dist-packages/vendor/capi/libvendor.so",
            Origin::Python,
        ),
        (
            "/usr/lib/python3/dist-packages/vendor/capi/libvendor.so",
            Origin::Python,
        ),
    ];
    assert_eq!(
        found,
        expected.map(|(path, origin)| (PathBuf::from(path), origin))
    );
}

#[test]
fn a_given_path_is_the_only_candidate() {
    let tree = Tree::new(&["/usr/lib/libvendor.so", "/mine/libvendor.so.2"]);
    let around = tree.with(&[("TEST_LIBRARY", "/usr/lib/libvendor.so")]);
    let given = |path: &str| tree.listed(&candidates(&WANTED, Some(Path::new(path)), &[], &around));

    assert_eq!(
        given("/mine/libvendor.so.2"),
        [("/mine/libvendor.so.2".into(), Origin::Given)]
    );
    assert_eq!(
        given("/mine"),
        [("/mine/libvendor.so.2".into(), Origin::Given)]
    );
    // So that opening it reports that it is missing.
    assert_eq!(given("/gone.so"), [("/gone.so".into(), Origin::Given)]);
}

#[test]
fn a_variable_that_is_set_rules_out_the_other_places() {
    let tree = Tree::new(&["/usr/lib/libvendor.so", "/mine/libvendor.so"]);
    let around = tree.with(&[
        ("TEST_LIBRARY", ""),
        ("OTHER_LIBRARY", "/mine/libvendor.so"),
    ]);

    let found = tree.listed(&candidates(&WANTED, None, &[], &around));

    assert_eq!(
        found,
        [(
            "/mine/libvendor.so".into(),
            Origin::Variable("OTHER_LIBRARY")
        )]
    );
}

#[test]
fn links_are_resolved_and_each_file_is_listed_once() {
    let tree = Tree::new(&["/usr/lib/libvendor.so.1.9", "/usr/lib/libvendor.so.1.10"]);
    for link in ["/usr/lib/libvendor.so", "/usr/lib/libvendor.so.1"] {
        symlink("libvendor.so.1.9", tree.real(link)).unwrap();
    }

    let found = tree.listed(&candidates(&WANTED, None, &[], &tree.with(&[])));

    // The bare name leads: whoever made the link chose that version.
    assert_eq!(
        found,
        [
            ("/usr/lib/libvendor.so.1.9".into(), Origin::System),
            ("/usr/lib/libvendor.so.1.10".into(), Origin::System)
        ]
    );
}

#[test]
fn names_that_only_begin_alike_are_left_out() {
    let tree = Tree::new(&[
        "/usr/lib/libvendor.so.bak",
        "/usr/lib/libvendor.sock",
        "/usr/lib/libvendor_extra.so",
    ]);

    assert_eq!(candidates(&WANTED, None, &[], &tree.with(&[])), []);
}

#[test]
fn the_first_that_opens_wins_and_the_reasons_are_kept() {
    let tree = Tree::new(&[
        "/usr/lib/libvendor.so.3",
        "/usr/lib/libvendor.so.2",
        "/usr/lib/libvendor.so.1",
    ]);
    let listed = candidates(&WANTED, None, &[], &tree.with(&[]));

    let tried = first_usable(listed, |path| {
        if path.ends_with("libvendor.so.2") {
            Ok(2)
        } else {
            Err("broken")
        }
    });

    assert_eq!(tried.found.unwrap().1, 2);
    assert_eq!(tried.rejected.len(), 1);
    assert_eq!(tried.rejected[0].1, "broken");
}

struct Tree {
    root: TempDir,
}

impl Tree {
    fn new(files: &[&str]) -> Self {
        let tree = Self {
            root: tempfile::tempdir().expect("a temporary folder can be made"),
        };
        for file in files {
            let path = tree.real(file);
            fs::create_dir_all(path.parent().expect("test paths are files in folders"))
                .expect("folders can be made");
            fs::write(path, "").expect("files can be made");
        }
        tree
    }

    fn real(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn with(&self, variables: &[(&str, &str)]) -> Surroundings {
        let variables = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect::<BTreeMap<_, _>>();
        Surroundings {
            root: self.root.path().into(),
            variables,
        }
    }

    /// Paths as seen from inside the tree.
    fn listed(
        &self,
        candidates: &[edgedyno_sys::vendor::search::Candidate],
    ) -> Vec<(PathBuf, Origin)> {
        let root = self.root.path().canonicalize().expect("the tree exists");
        let inside = |path: &Path| {
            let inner = path
                .strip_prefix(&root)
                .or_else(|_| path.strip_prefix(self.root.path()));
            Path::new("/").join(inner.expect("all candidates are inside the tree"))
        };
        candidates
            .iter()
            .map(|c| (inside(&c.path), c.origin.clone()))
            .collect()
    }
}
