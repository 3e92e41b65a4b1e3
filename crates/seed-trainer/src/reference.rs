//! Reference pages made from the code: configuration keys, presets, metrics.

use crate::config::{Config, EnvName, Layers, Method, Preset};
use crate::metrics::METRICS;
use std::fmt::Write;

/// Every key as Markdown tables, one a section.
pub fn configuration_keys() -> String {
    let mut page = String::new();
    let mut section = None;
    for key in Config::keys() {
        if section != Some(key.section()) {
            section = Some(key.section());
            let title =
                if key.section().is_empty() { "Top level".into() } else { format!("`[{}]`", key.section()) };
            write!(page, "\n### {title}\n\n| key | takes | default | meaning |\n|---|---|---|---|\n")
                .expect("string");
        }
        let takes = (key.takes)().replace('|', "or");
        let doc = key.doc.join(" ").replace('|', "\\|");
        writeln!(page, "| `{}` | {takes} | `{}` | {} |", key.path, (key.default)(), doc.trim())
            .expect("string");
    }
    page.push('\n');
    page
}

/// What differs between presets, and what each method sets, as Markdown tables.
pub fn presets() -> String {
    let mut page = String::new();
    for env in EnvName::ALL {
        write!(page, "\n### Presets for `{env}`\n\n{}", preset_table(*env)).expect("string");
    }
    page.push_str("\n### Methods\n\n| method | sets |\n|---|---|\n");
    for method in Method::ALL {
        let base = Layers::new().set(["method=seed"]).expect("known key").resolve_unchecked();
        let other = Layers::new().set([format!("method={method}")]).expect("known key").resolve_unchecked();
        let sets: Vec<String> = other
            .differences(&base)
            .into_iter()
            .filter(|(key, ..)| *key != "method")
            .map(|(key, value, _)| format!("`{key} = {value}`"))
            .collect();
        writeln!(page, "| `{method}` | {} |", sets.join(", ")).expect("string");
    }
    page.push('\n');
    page
}

/// The keys in which presets differ for one environment, as a Markdown table.
pub fn preset_table(env: EnvName) -> String {
    let resolved: Vec<_> = Preset::ALL
        .iter()
        .map(|preset| {
            let sets = [format!("preset={preset}"), format!("env.name={env}")];
            Layers::new().set(sets).expect("known keys").resolve_unchecked()
        })
        .collect();
    let mut table = String::from("| key |");
    for preset in Preset::ALL {
        write!(table, " {preset} |").expect("string");
    }
    table.push_str("\n|---|---|---|---|---|\n");
    for key in Config::keys().filter(|key| !matches!(key.path, "preset" | "env.name")) {
        let values: Vec<String> =
            resolved.iter().map(|r| r.get(key.path).expect("known").0.to_string()).collect();
        if values.iter().any(|value| *value != values[0]) {
            writeln!(table, "| `{}` | {} |", key.path, values.join(" | ")).expect("string");
        }
    }
    table
}

/// Every metric as a Markdown table.
pub fn metrics() -> String {
    let mut page = String::from("\n| name | meaning | healthy |\n|---|---|---|\n");
    for metric in METRICS {
        writeln!(page, "| `{}` | {} | {} |", metric.name, metric.meaning.replace('|', "\\|"), metric.healthy)
            .expect("string");
    }
    page.push('\n');
    page
}
