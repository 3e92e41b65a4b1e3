//! One small chart as inline SVG: no script, no font, no file from outside.

use std::fmt::Write;

const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 46.0;
const BOTTOM: f64 = 22.0;
const TOP: f64 = 8.0;
const RIGHT: f64 = 8.0;
/// Line styles differ in dash as well as in colour, so that meaning never hangs on colour alone.
const STYLES: [(&str, &str); 6] = [
    ("#2563eb", ""),
    ("#d97706", "6 3"),
    ("#059669", "2 2"),
    ("#db2777", "8 2 2 2"),
    ("#7c3aed", "4 4"),
    ("#475569", "1 3"),
];

/// A titled chart of one or more lines; an empty string when there is nothing to draw.
pub(super) fn chart(title: &str, lines: &[(&str, &[(f64, f64)])]) -> String {
    let lines: Vec<_> = lines.iter().filter(|(_, points)| !points.is_empty()).collect();
    let points = || lines.iter().flat_map(|(_, points)| points.iter());
    if points().next().is_none() {
        return String::new();
    }
    let span = |pick: fn(&(f64, f64)) -> f64| {
        let low = points().map(pick).fold(f64::INFINITY, f64::min);
        let high = points().map(pick).fold(f64::NEG_INFINITY, f64::max);
        if high > low { (low, high) } else { (low - 0.5, high + 0.5) }
    };
    let (x_low, x_high) = span(|p| p.0);
    let (y_low, y_high) = span(|p| p.1);
    let x = |value: f64| LEFT + (value - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| TOP + (y_high - value) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM);

    let mut svg = format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        super::page::escape(title),
        super::page::escape(title),
    );
    for share in [0.0, 0.5, 1.0] {
        let value = y_low + share * (y_high - y_low);
        let at = y(value);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"grid\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 4.0,
            at + 3.5,
            short(value)
        );
    }
    for value in [x_low, x_high] {
        let anchor = if value == x_low { "start" } else { "end" };
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            x(value),
            HEIGHT - 6.0,
            short(value)
        );
    }
    for ((_, points), (color, dash)) in lines.iter().zip(STYLES.iter().cycle()) {
        let path: Vec<String> =
            points.iter().map(|(px, py)| format!("{:.1},{:.1}", x(*px), y(*py))).collect();
        let _ = write!(
            svg,
            "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"1.8\" stroke-dasharray=\"{dash}\" points=\"{}\"/>",
            path.join(" ")
        );
        if let [(px, py)] = points {
            let _ =
                write!(svg, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{color}\"/>", x(*px), y(*py));
        }
    }
    svg.push_str("</svg>");
    if lines.len() > 1 {
        svg.push_str("<p class=\"legend\">");
        for ((name, _), (color, dash)) in lines.iter().zip(STYLES.iter().cycle()) {
            let _ = write!(
                svg,
                "<span><svg viewBox=\"0 0 22 6\"><line x1=\"0\" x2=\"22\" y1=\"3\" y2=\"3\" stroke=\"{color}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/></svg>{}</span>",
                super::page::escape(name)
            );
        }
        svg.push_str("</p>");
    }
    svg.push_str("</figure>");
    svg
}

/// Three significant digits.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e5).contains(&size) {
        return format!("{value:.1e}");
    }
    let decimals = if size >= 100.0 || value.fract() == 0.0 {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else {
        3
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_line_and_a_single_point_are_drawn_inside() {
        let svg = chart("flat", &[("a", &[(0.0, 1.0), (10.0, 1.0)]), ("b", &[(5.0, 1.0)])]);
        assert!(svg.contains("<polyline") && svg.contains("<circle"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(chart("none", &[("a", &[])]), "");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 3.0, 0.1234, 12.34, 1234.5, 1e-6].map(short),
            ["0", "3", "0.123", "12.3", "1234", "1.0e-6"]
        );
    }
}
