//! Other programs that play the same: a Python script on stdin, one line of JSON back.

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

/// The interpreter of `--peer PYTHON`, where it is given.
pub(crate) fn interpreter(arguments: &[String], name: &str) -> Result<Option<String>, String> {
    match arguments {
        [] => Ok(None),
        [flag, python] if flag == "--peer" => Ok(Some(python.clone())),
        _ => Err(format!("usage: cargo xtask bench envs {name} [--peer PYTHON]")),
    }
}

/// Runs a script with the work as its standard input and reads the last line that it prints.
pub(crate) fn run(python: &str, script: &str, work: &Value, hint: &str) -> Result<Value, String> {
    let mut child = Command::new(python)
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{python}: {error}"))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(work.to_string().as_bytes()).map_err(|error| error.to_string())?;
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().and_then(|line| serde_json::from_str(line).ok()).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or("nothing was said");
        format!("{python}: the package did not run ({last}); {hint}")
    })
}

/// A list that the peer gave.
pub(crate) fn list<'v>(result: &'v Value, key: &str) -> Result<&'v [Value], String> {
    result[key].as_array().map(Vec::as_slice).ok_or_else(|| format!("the peer gave no list `{key}`"))
}

/// How many answers both sides gave, and how many of these differ.
pub(crate) fn compare<O: PartialEq<T>, T>(
    ours: impl IntoIterator<Item = O>,
    theirs: impl IntoIterator<Item = T>,
) -> (usize, usize) {
    ours.into_iter().zip(theirs).fold((0, 0), |(compared, different), (ours, theirs)| {
        (compared + 1, different + usize::from(ours != theirs))
    })
}

/// As [`compare`], for walks that each side gave one after the other.
pub(crate) fn compare_walks<O: PartialEq<Value>>(
    ours: &[Vec<O>],
    theirs: &[Value],
) -> Result<(usize, usize), String>
where
    for<'a> &'a O: PartialEq<&'a Value>,
{
    if ours.len() != theirs.len() {
        return Err(format!("the peer answered {} walks of {}", theirs.len(), ours.len()));
    }
    let one = |(ours, theirs): (&Vec<O>, &Value)| compare(ours, theirs.as_array().into_iter().flatten());
    let sum = |a: (usize, usize), b: (usize, usize)| (a.0 + b.0, a.1 + b.1);
    Ok(ours.iter().zip(theirs).map(one).fold((0, 0), sum))
}

/// A number that the peer gave.
pub(crate) fn number(result: &Value, key: &str) -> Result<f64, String> {
    result[key].as_f64().ok_or_else(|| format!("the peer gave no `{key}`"))
}
