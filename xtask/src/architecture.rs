//! The dependency directions of the house, checked against `cargo metadata`.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use xshell::{Shell, cmd};

/// Each package with the packages of ours that it may depend on. Any other edge is an error.
const ALLOWED: &[(&str, &[&str])] = &[
    ("seed-core", &[]),
    ("seed-model", &[]),
    ("seed-envs", &[]),
    ("seed-analyzer", &["seed-envs"]),
    ("seed-rollout", &["seed-envs", "seed-model"]),
    ("seed-trainer", &["seed-analyzer", "seed-core", "seed-envs", "seed-model", "seed-rollout"]),
    ("seed-cli", &["seed-analyzer", "seed-core", "seed-envs", "seed-model", "seed-rollout", "seed-trainer"]),
    ("xtask", &[]),
];

/// Crates that stay free of burn, so that they build in seconds and run anywhere.
const WITHOUT_BURN: &[&str] = &["seed-envs", "seed-analyzer", "xtask"];

/// Fails when a package of the workspace is unknown, missing, or depends on one it must not know.
pub(crate) fn check_edges(sh: &Shell) -> Result<()> {
    let text = cmd!(sh, "cargo metadata --format-version 1 --no-deps").quiet().read()?;
    let problems = problems(&serde_json::from_str(&text)?)?;
    if !problems.is_empty() {
        bail!("crate edges differ from docs/architecture.md:\n  {}", problems.join("\n  "));
    }
    Ok(())
}

fn problems(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut problems = Vec::new();
    let names: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    for (name, _) in ALLOWED {
        if !names.contains(name) {
            problems.push(format!("package `{name}` is missing"));
        }
    }
    for package in packages {
        let name = package["name"].as_str().context("a package without a name")?;
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            problems.push(format!("package `{name}` is not in the architecture"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = dependency["name"].as_str().unwrap_or_default();
            let ours = names.contains(&to);
            if ours && !allowed.contains(&to) {
                problems.push(format!("`{name}` must not depend on `{to}`"));
            }
            if WITHOUT_BURN.contains(&name) && (to == "burn" || to.starts_with("burn-")) {
                problems.push(format!("`{name}` must stay free of burn, but depends on `{to}`"));
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_workspace_keeps_its_edges() {
        let sh = Shell::new().unwrap();
        sh.change_dir(crate::project_root());
        check_edges(&sh).unwrap();
    }

    fn workspace_with(name: &str, dependency: &str) -> Value {
        let packages: Vec<Value> = ALLOWED
            .iter()
            .map(|(package, _)| {
                let dependencies = if *package == name { json!([{ "name": dependency }]) } else { json!([]) };
                json!({ "name": package, "dependencies": dependencies })
            })
            .collect();
        json!({ "packages": packages })
    }

    #[test]
    fn an_upward_edge_is_reported() {
        for (from, to) in
            [("seed-core", "seed-model"), ("seed-model", "seed-envs"), ("seed-rollout", "seed-core")]
        {
            let found = problems(&workspace_with(from, to)).unwrap();
            assert_eq!(found, [format!("`{from}` must not depend on `{to}`")]);
        }
    }

    #[test]
    fn burn_in_a_light_crate_is_reported() {
        assert_eq!(problems(&workspace_with("seed-envs", "burn")).unwrap().len(), 1);
        assert!(problems(&workspace_with("seed-model", "burn")).unwrap().is_empty());
    }

    #[test]
    fn an_unknown_package_is_reported() {
        let mut workspace = workspace_with("seed-core", "serde");
        workspace["packages"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "seed-extra", "dependencies": [] }));
        assert_eq!(problems(&workspace).unwrap(), ["package `seed-extra` is not in the architecture"]);
    }
}
