//! Exports, made and judged by a script that knows nothing of this project.

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const DUCKDB: &str = "duckdb==1.4.4";

/// Python with these packages, in an environment of their own; `None`, saying so, where they cannot
/// be had. In CI they must be.
pub(crate) fn python(environment: &str, packages: &[&str]) -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(environment);
    let python = directory.join("bin/python");
    let installed = directory.join("installed");
    let wanted = packages.join("\n");
    if std::fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Some(python);
    }
    let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory).output();
    let made = made.and_then(|_| {
        let pip =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20"];
        Command::new(&python).args(pip).args(packages).output()
    });
    match made {
        Ok(output) if output.status.success() => {
            std::fs::write(installed, wanted).unwrap();
            Some(python)
        }
        problem => {
            assert!(std::env::var_os("CI").is_none(), "no {packages:?}: {problem:?}");
            eprintln!("passed over: {packages:?} cannot be installed: {problem:?}");
            None
        }
    }
}

/// Runs a script of this folder; its arguments are the tool, captures, SQL, a fresh folder, and these.
pub(crate) fn judge(python: &Path, script: &str, more: &[&Path]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("export-{script}"));
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(&work).unwrap();
    let output = Command::new(python)
        .arg(here.join("tests/export").join(script))
        .arg(env!("CARGO_BIN_EXE_roce-pcap"))
        .args([&here.join("../tests/captures"), &here.join("sql"), &work])
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaint}");
    println!("{said}");
    std::fs::remove_dir_all(&work).unwrap();
}
