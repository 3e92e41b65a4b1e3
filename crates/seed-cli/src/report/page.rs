//! The page: headline, curves, panels, skills, one episode, configuration.

use super::curve::{chart, short};
use super::source::Source;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1120px;margin:2rem auto;padding:0 1rem;color:#1f2937;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem;border-bottom:1px solid #d1d5db}
.grid{stroke:#e5e7eb}.curves{display:grid;grid-template-columns:repeat(auto-fill,minmax(320px,1fr));gap:1rem}
figure{margin:0}figcaption{font-weight:600;font-size:.85rem}figure svg{width:100%}svg text{font-size:10px;fill:#6b7280}
.legend{margin:0;font-size:.75rem;display:flex;flex-wrap:wrap;gap:.2rem 1rem}.legend svg{width:22px;height:6px;margin-right:.3rem}
table{border-collapse:collapse;font-size:.85rem}td,th{border:1px solid #e5e7eb;padding:.2rem .6rem;text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}pre{background:#f8fafc;padding:.8rem;overflow:auto;font-size:.78rem}
.tokens{font:13px/1.9 ui-monospace,monospace;white-space:pre-wrap;word-break:break-word;background:#f8fafc;padding:.8rem}
.tokens .context{color:#6b7280}.tokens .sampled{border-radius:3px;padding:1px 0;border-bottom:2px solid transparent}
.big{font-size:1.3rem;font-weight:600}";

/// Text that may stand in HTML text and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// The whole page.
pub(super) fn render(source: &Source) -> String {
    let sections = [
        headline(source),
        curves(source),
        panels(source),
        skills(source),
        episode(source),
        times(source),
        format!("<h2>Configuration</h2><pre>{}</pre>", escape(&source.config)),
        format!("<h2>Manifest</h2><pre>{}</pre>", escape(&source.manifest)),
    ];
    let name = escape(&source.name);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{name}</title><style>{STYLE}</style></head><body><h1>{name}</h1>{}</body></html>\n",
        sections.concat()
    )
}

fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

/// Success on each panel, first and last, with the standard error of a share.
fn headline(source: &Source) -> String {
    let mut html = String::new();
    for (split, points) in source.family("eval/", "/success") {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        let games = source.points(&format!("eval/{split}/games")).last().map_or(0.0, |p| p.1);
        let error = if games > 0.0 { (last.1 * (1.0 - last.1) / games).sqrt() } else { 0.0 };
        let _ = write!(
            html,
            "<p><span class=\"big\">{}: {} → {}</span> success over {games:.0} episodes, updates {:.0} → {:.0}; one standard error of the last is {}.</p>",
            escape(split),
            percent(first.1),
            percent(last.1),
            first.0,
            last.0,
            percent(error)
        );
    }
    html
}

fn curves(source: &Source) -> String {
    let p = |name: &str| source.points(name).to_vec();
    let mut html = String::from("<h2>Curves</h2><div class=\"curves\">");
    html.push_str(&chart("success on panels", &source.family("eval/", "/success")));
    let groups: &[(&str, &[(&str, &str)])] = &[
        ("training success", &[("success", "episode/success")]),
        ("episode length", &[("steps", "episode/length")]),
        ("valid actions", &[("valid", "episode/valid_action_ratio")]),
        (
            "groups without spread",
            &[("tied", "group/tied_ratio"), ("penalty only", "group/penalty_only_ratio")],
        ),
        (
            "analyzer parse rate",
            &[
                ("parsed", "skill/parse_rate"),
                ("distinct", "skill/distinct_ratio"),
                ("grounding", "skill/grounding"),
            ],
        ),
        (
            "skill lift, nats",
            &[
                ("real", "skill/lift_real"),
                ("shuffled", "skill/lift_shuffled"),
                ("empty", "skill/lift_empty"),
            ],
        ),
        ("gate", &[("mean", "opd/gate_mean"), ("above one half", "opd/gate_active_ratio")]),
        ("teacher gap, nats", &[("gap", "opd/teacher_gap_mean")]),
        ("distillation loss", &[("loss", "opd/loss")]),
        ("KL to the reference", &[("kl", "actor/kl_loss")]),
        ("entropy, nats", &[("entropy", "actor/entropy")]),
        ("gradient norm", &[("norm", "actor/grad_norm")]),
        ("clip fractions", &[("upper", "actor/pg_clipfrac"), ("dual", "actor/pg_clipfrac_lower")]),
        (
            "engine − trainer log-probability",
            &[("max", "rollout/logprob_diff_max"), ("mean", "rollout/logprob_diff_mean")],
        ),
        ("stage 1 loss", &[("training", "sft/loss"), ("validation", "sft/validation_loss")]),
        (
            "seconds per update",
            &[("step", "time/step"), ("roll-out", "time/rollout"), ("update", "time/update")],
        ),
    ];
    for (title, lines) in groups {
        let points: Vec<(&str, Vec<(f64, f64)>)> =
            lines.iter().map(|(label, name)| (*label, p(name))).collect();
        let lines: Vec<(&str, &[(f64, f64)])> =
            points.iter().map(|(label, points)| (*label, points.as_slice())).collect();
        html.push_str(&chart(title, &lines));
    }
    html + "</div>"
}

/// First and last evaluation by kind of task, one table a panel.
fn panels(source: &Source) -> String {
    let mut html = String::new();
    for (split, all) in source.family("eval/", "/success") {
        let prefix = format!("eval/{split}/success/");
        let kinds = source.family(&prefix, "");
        if kinds.is_empty() {
            continue;
        }
        let _ = write!(
            html,
            "<h2>Panel {}</h2><table><tr><th>kind of task</th><th class=\"n\">first</th><th class=\"n\">last</th></tr>",
            escape(split)
        );
        let by_kind = source.points(&format!("eval/{split}/success_by_kind")).to_vec();
        let rows = kinds.into_iter().chain([("all episodes", all), ("mean of kinds", by_kind.as_slice())]);
        for (kind, points) in rows {
            let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
            let _ = write!(
                html,
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
                escape(kind),
                percent(first.1),
                percent(last.1)
            );
        }
        html.push_str("</table>");
    }
    html
}

/// A few skills of a few updates, successes and failures.
fn skills(source: &Source) -> String {
    if source.skills.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<h2>Skills over time</h2><table><tr><th class=\"n\">update</th><th>task</th><th>outcome</th><th>skill</th></tr>",
    );
    let count = source.skills.len();
    let shown: BTreeSet<usize> = (0..6).map(|i| i * (count - 1) / 5).collect();
    for (step, records) in shown.into_iter().map(|index| &source.skills[index]) {
        let won = |record: &&Value, won: bool| record["won"] == won && record["skill"].is_string();
        let picked = [true, false].map(|outcome| records.iter().find(|record| won(record, outcome)));
        let unparsed = records.iter().find(|record| record["skill"].is_null());
        for record in picked.into_iter().flatten().chain(unparsed) {
            let text = |key: &str| escape(record[key].as_str().unwrap_or_default());
            let outcome = if record["won"] == true { "success" } else { "failure" };
            let skill = match record["skill"].as_str() {
                Some(skill) => escape(skill),
                None => format!("<i>no skill: {}</i>", text("error")),
            };
            let _ = write!(
                html,
                "<tr><td class=\"n\">{step}</td><td>{}</td><td>{outcome}</td><td>{skill}</td></tr>",
                text("task")
            );
        }
    }
    html + "</table>"
}

/// One episode, its sampled tokens coloured by gap (background) and gate (underline).
fn episode(source: &Source) -> String {
    let Some((step, view)) = &source.tokens else { return String::new() };
    let text = |key: &str| escape(view[key].as_str().unwrap_or_default());
    let mut html = format!(
        "<h2>One episode, token by token</h2><p>Update {step}, task <b>{}</b>, {}. Skill: <i>{}</i></p>\
         <p>Green: the skill makes the token likelier; red: less likely. The line under a token grows with its gate. Hover for numbers; grey is context.</p><div class=\"tokens\">",
        text("task"),
        if view["won"] == true { "success" } else { "failure" },
        if view["skill"].is_string() { text("skill") } else { "none, so no teacher".into() },
    );
    for token in view["tokens"].as_array().into_iter().flatten() {
        let piece = escape(token["text"].as_str().unwrap_or_default());
        if token["sampled"] != true {
            let _ = write!(html, "<span class=\"context\">{piece}</span>");
            continue;
        }
        let number = |key: &str| token[key].as_f64();
        let mut style = String::new();
        let mut title = String::new();
        if let Some(gap) = number("gap") {
            let strength = (gap.abs() / 2.0).min(1.0) * 0.75;
            let color = if gap >= 0.0 { "16,185,129" } else { "239,68,68" };
            let _ = write!(style, "background:rgba({color},{strength:.2});");
            let _ = write!(title, "gap {gap:+.3} ");
        }
        if let Some(gate) = number("gate") {
            let _ = write!(style, "border-color:rgba(37,99,235,{gate:.2});");
            let _ = write!(title, "gate {gate:.3} ");
        }
        for key in ["logp", "advantage"] {
            if let Some(value) = number(key) {
                let _ = write!(title, "{key} {value:+.3} ");
            }
        }
        let _ = write!(
            html,
            "<span class=\"sampled\" style=\"{style}\" title=\"{}\">{piece}</span>",
            title.trim()
        );
    }
    html + "</div>"
}

/// Mean seconds of the parts of an update, and SEED's share.
fn times(source: &Source) -> String {
    let mean = |name: &str| {
        let points = source.points(name);
        (!points.is_empty()).then(|| points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64)
    };
    let parts = ["rollout", "analysis", "old_logprob", "reference", "teacher", "update", "step"];
    let rows: Vec<(&str, f64)> =
        parts.iter().filter_map(|part| Some((*part, mean(&format!("time/{part}"))?))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<h2>Where the time goes</h2><table><tr><th>part</th><th class=\"n\">seconds per update</th></tr>",
    );
    for (part, seconds) in &rows {
        let _ = write!(html, "<tr><td>{part}</td><td class=\"n\">{}</td></tr>", short(*seconds));
    }
    html.push_str("</table>");
    let of = |name: &str| rows.iter().find(|(part, _)| *part == name).map_or(0.0, |row| row.1);
    let extra = of("analysis") + of("teacher");
    if extra > 0.0 && of("step") > extra {
        let _ = write!(
            html,
            "<p>Analysis and teacher cost {:.2}× of an update without them.</p>",
            of("step") / (of("step") - extra)
        );
    }
    html
}
