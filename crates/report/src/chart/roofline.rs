use llmprof_units::{Basis, Count, format_significant};

use super::{
    ChartWidth,
    axis::ChartAxis,
    distinct, shortened,
    svg::{Svg, SvgElement},
    text_width,
    theme::CATEGORIES,
    wrapped,
};
use crate::view::{PlottedOperator, Roofline, RooflineCeiling, Unit};

const TITLE: &str = "Operators under the roofline";
const LEGEND: f64 = 18.0;

/// The area in which operators have their place.
#[derive(Clone, Copy)]
struct RooflinePlane {
    width: ChartWidth,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: ChartAxis,
    y: ChartAxis,
    rates: Unit,
}

/// Operators on logarithmic axes under the device's limits. Area tells time, colour the kind, shape the phase.
///
/// Points carry `data-kind` and `data-phase`, roofs `data-basis`, for pages that filter them.
pub fn roofline(roofline: &Roofline, width: ChartWidth) -> Svg {
    let (left, right) = (width.pick(104.0, 84.0), width.pixels() - 16.0);
    let points: Vec<&PlottedOperator> = roofline
        .points
        .iter()
        .filter(|point| point.is_drawable())
        .collect();
    let roofs: Vec<&RooflineCeiling> = roofline
        .roofs
        .iter()
        .filter(|roof| roof.is_drawable())
        .collect();
    let legend = Legend::new(&points, width.pick(left, 0.0), right);
    let top = 36.0 + legend.height();
    let bottom = top + width.pick(420.0, 340.0);
    let absent = roofline.points.len() - points.len();
    let has_note = absent > 0 && width == ChartWidth::Narrow;
    let titles = roofline.titles.as_ref();
    let title = titles.map_or(TITLE, |titles| titles.title.as_str());
    let mut svg = Svg::new(title, width, bottom + if has_note { 64.0 } else { 46.0 });
    legend.draw(&mut svg);

    let (x, y) = axes(&roofs, &points, (left, right), (top, bottom));
    let plane = RooflinePlane {
        width,
        left,
        right,
        top,
        bottom,
        x,
        y,
        rates: if titles.is_some_and(|titles| titles.is_normalized) {
            Unit::Fraction
        } else {
            Unit::FlopsPerSecond
        },
    };
    plane.grid(&mut svg, titles.map(|titles| titles.intensity.as_str()));
    let by_basis: Vec<(Basis, Vec<&RooflineCeiling>)> = [Basis::Datasheet, Basis::Measured]
        .into_iter()
        .map(|basis| {
            let of_basis = |roof: &&&RooflineCeiling| roof.is_own == (basis == Basis::Measured);
            (basis, roofs.iter().filter(of_basis).copied().collect())
        })
        .collect();
    for (basis, roofs) in &by_basis {
        svg.add(plane.roof_lines(roofs, *basis));
    }
    plane.points(&points, &legend, &roofs, &mut svg);
    let mut labels = Labels::new(&plane, &points);
    // What a page shows at first has its labels at the end of the lines.
    for (basis, roofs) in by_basis.iter().rev() {
        svg.add(labels.draw_basis(roofs, *basis));
    }
    if absent > 0 {
        let line = width.pick(16.0, bottom + 54.0);
        svg.add(SvgElement::text(right, line, &without_a_place(absent, width)).class("tick end"));
    }
    svg
}

fn without_a_place(absent: usize, width: ChartWidth) -> String {
    match (absent, width) {
        (1, ChartWidth::Wide) => {
            "not drawn: 1 operator without arithmetic or without DRAM traffic".to_owned()
        }
        (_, ChartWidth::Wide) => {
            format!("not drawn: {absent} operators without arithmetic or without DRAM traffic")
        }
        (_, ChartWidth::Narrow) => {
            format!("not drawn: {absent} without arithmetic or DRAM traffic")
        }
    }
}

/// Phases by their shapes, then kinds by their colours.
struct Legend<'a> {
    phases: Vec<&'a str>,
    kinds: Vec<&'a str>,
    labels: Vec<String>,
    /// Where each label begins, and its line.
    places: Vec<(f64, usize)>,
}

impl<'a> Legend<'a> {
    fn new(points: &[&'a PlottedOperator], left: f64, right: f64) -> Self {
        let kinds = distinct(points.iter().map(|point| point.kind.as_str()));
        let phases = distinct(points.iter().map(|point| point.phase.as_str()));
        let labels: Vec<String> = phases
            .iter()
            .chain(&kinds)
            .map(|label| shortened(label, 28))
            .collect();
        let widths: Vec<f64> = labels
            .iter()
            .map(|label| text_width(label) + 32.0)
            .collect();
        let places = wrapped(&widths, left, right);
        Self {
            phases,
            kinds,
            labels,
            places,
        }
    }

    fn height(&self) -> f64 {
        LEGEND
            * self
                .places
                .last()
                .map_or(0.0, |&(_, line)| line as f64 + 1.0)
    }

    fn draw(&self, svg: &mut Svg) {
        for (index, (label, &(at, line))) in self.labels.iter().zip(&self.places).enumerate() {
            let y = 36.0 + LEGEND * line as f64;
            let sign = match index.checked_sub(self.phases.len()) {
                None => SvgElement::new("path")
                    .attribute("d", &shape(index, at + 5.0, y - 4.0, 5.0))
                    .class("total"),
                Some(kind) => SvgElement::rect(at, y - 9.0, 10.0, 10.0)
                    .class(&format!("c{} flat", kind % CATEGORIES)),
            };
            svg.add(sign);
            svg.add(SvgElement::text(at + 16.0, y, label).class("tick"));
        }
    }
}

fn axes(
    roofs: &[&RooflineCeiling],
    points: &[&PlottedOperator],
    across: (f64, f64),
    along: (f64, f64),
) -> (ChartAxis, ChartAxis) {
    let range = |values: &mut dyn Iterator<Item = f64>| {
        values.fold(
            (f64::INFINITY, f64::NEG_INFINITY),
            |(low, high): (f64, f64), value| (low.min(value), high.max(value)),
        )
    };
    let ridges = roofs.iter().map(|roof| roof.ridge());
    let intensities = points.iter().map(|point| point.intensity);
    let (left, right) = range(&mut ridges.chain(intensities));
    let x = ChartAxis::logarithmic(left / 3.0, right * 4.0, across.0, across.1);
    let peaks = roofs.iter().map(|roof| roof.peak_flops_per_s.0);
    // A roof far above every point still shows its slope, but only its lowest decade below the points.
    let rates = points.iter().map(|point| point.flops_per_s.0);
    let feet = roofs.iter().map(|roof| roof.at(left).0);
    let (low, high) = range(&mut peaks.chain(rates).chain(feet));
    (
        x,
        ChartAxis::logarithmic(low / 2.0, high * 2.5, along.1, along.0),
    )
}

impl RooflinePlane {
    fn grid(&self, svg: &mut Svg, intensity: Option<&str>) {
        let Self { left, right, .. } = *self;
        for tick in self.x.ticks(0, Unit::FlopsPerByte) {
            let at = self.x.at(tick);
            svg.add(SvgElement::line(at, self.top, at, self.bottom).class("grid"));
            let text = format_significant(tick);
            svg.add(SvgElement::text(at, self.bottom + 16.0, &text).class("tick middle"));
        }
        for tick in self.y.ticks(0, self.rates) {
            let at = self.y.at(tick);
            svg.add(SvgElement::line(left, at, right, at).class("grid"));
            let text = self.rates.tick(tick);
            svg.add(SvgElement::text(left - 8.0, at + 4.0, &text).class("tick end"));
        }
        let (middle, label) = self.width.pick(
            (
                f64::midpoint(left, right),
                intensity
                    .unwrap_or("arithmetic intensity (FLOPs per byte of minimum DRAM traffic)"),
            ),
            (f64::midpoint(0.0, right), "arithmetic intensity (FLOP/B)"),
        );
        svg.add(SvgElement::text(middle, self.bottom + 36.0, label).class("quiet middle"));
    }

    fn points(
        &self,
        points: &[&PlottedOperator],
        legend: &Legend<'_>,
        roofs: &[&RooflineCeiling],
        svg: &mut Svg,
    ) {
        let longest = points.iter().map(|point| point.time_ns.0).max();
        let longest = longest.unwrap_or(0).max(1) as f64;
        let position =
            |of: &[&str], text: &str| of.iter().position(|&known| known == text).unwrap_or(0);
        // The largest come first, so that small ones stay in reach of the pointer.
        let mut drawn = points.to_vec();
        drawn.sort_by_key(|point| std::cmp::Reverse(point.time_ns));
        for point in drawn {
            let kind = position(&legend.kinds, &point.kind);
            let phase = position(&legend.phases, &point.phase);
            let radius = 3.5 + 12.0 * (point.time_ns.0.max(0) as f64 / longest).sqrt();
            let (x, y) = (self.x.at(point.intensity), self.y.at(point.flops_per_s.0));
            let mark = SvgElement::new("path")
                .attribute("d", &shape(phase, x, y, radius))
                .class(&format!("point c{}", kind % CATEGORIES))
                .attribute("data-kind", &point.kind)
                .attribute("data-phase", &point.phase)
                .tooltip(&description(point, roofs, self.rates));
            svg.add(match &point.anchor {
                Some(anchor) => SvgElement::new("a")
                    .attribute("href", &format!("#{anchor}"))
                    .child(mark),
                None => mark,
            });
        }
    }

    /// Where a roof leaves the chart on the left or at the bottom, and where it turns flat.
    fn foot_and_knee(&self, roof: &RooflineCeiling) -> [(f64, f64); 2] {
        let (left, right) = self.x.domain();
        let (lowest, _) = self.y.domain();
        let begin = left.max(lowest / roof.bandwidth.0);
        let ridge = roof.ridge().clamp(begin, right.max(begin));
        [begin, ridge].map(|intensity| (self.x.at(intensity), self.y.at(roof.at(intensity).0)))
    }

    fn roof_lines(&self, roofs: &[&RooflineCeiling], basis: Basis) -> SvgElement {
        roofs.iter().fold(basis_group(basis), |group, roof| {
            let [foot, knee] = self.foot_and_knee(roof);
            let peak = self.rates.format(roof.peak_flops_per_s.0);
            let bandwidth = Unit::BytesPerSecond.format(roof.bandwidth.0);
            let tooltip = match self.rates {
                Unit::Fraction => roof.label.clone(),
                _ => format!("{} ({}): {peak}, {bandwidth}", roof.label, roof.basis),
            };
            let line = SvgElement::polyline(&[foot, knee, (self.right, knee.1)]);
            group.child(line.class("roof").tooltip(&tooltip))
        })
    }
}

/// Labels of roofs: peaks at the right end of their lines, in the order of the lines; each bandwidth once along its slope, where
/// fewest points and labels are.
struct Labels<'a> {
    plane: &'a RooflinePlane,
    /// Centres of points, ends and middles of labels along slopes.
    taken: Vec<(f64, f64)>,
    /// Where labels of peaks end on the right.
    right: f64,
}

/// Height of a line of labels.
const LINE: f64 = 13.0;
/// Places of a label along a slope.
const PLACES: [f64; 7] = [0.5, 0.35, 0.65, 0.2, 0.8, 0.1, 0.9];

impl<'a> Labels<'a> {
    fn new(plane: &'a RooflinePlane, points: &[&PlottedOperator]) -> Self {
        let center = |point: &&PlottedOperator| {
            (plane.x.at(point.intensity), plane.y.at(point.flops_per_s.0))
        };
        Self {
            plane,
            taken: points.iter().map(center).collect(),
            right: plane.right - 4.0,
        }
    }

    /// The labels of one basis, which a page shows or hides together.
    fn draw_basis(&mut self, roofs: &[&RooflineCeiling], basis: Basis) -> SvgElement {
        let group = self.peaks(roofs, basis_group(basis));
        let mut slopes: Vec<&RooflineCeiling> = Vec::new();
        for roof in roofs {
            if !slopes.iter().any(|known| known.bandwidth == roof.bandwidth) {
                slopes.push(roof);
            }
        }
        slopes.iter().fold(group, |group, roof| {
            let others = slopes
                .iter()
                .filter(|other| other.bandwidth != roof.bandwidth);
            let others: Vec<(f64, f64)> = others.flat_map(|other| self.along(other)).collect();
            group.child(self.bandwidth(roof, &others))
        })
    }

    /// Places on a slope.
    fn along(&self, roof: &RooflineCeiling) -> Vec<(f64, f64)> {
        let [foot, knee] = self.plane.foot_and_knee(roof);
        let place = |step: u32| {
            let share = f64::from(step) / 40.0;
            (
                foot.0 + share * (knee.0 - foot.0),
                foot.1 + share * (knee.1 - foot.1),
            )
        };
        (0..=40).map(place).collect()
    }

    fn peaks(&mut self, roofs: &[&RooflineCeiling], mut group: SvgElement) -> SvgElement {
        let mut lines: Vec<(f64, Vec<&str>, String)> = Vec::new();
        for roof in roofs {
            let [_, knee] = self.plane.foot_and_knee(roof);
            let (unit, _) = roof.unit_and_memory();
            let peak = if self.plane.rates == Unit::Fraction {
                String::new()
            } else {
                let peak = self.plane.rates.format(roof.peak_flops_per_s.0);
                format!(" {peak}, {}", roof.basis)
            };
            // A unit has one peak, whichever memory feeds it; units of equal peaks share a line and its label.
            match lines.iter_mut().find(|(_, _, known)| *known == peak) {
                Some((_, units, _)) if units.contains(&unit) => {}
                Some((_, units, _)) => units.push(unit),
                None => lines.push((knee.1, vec![unit], peak)),
            }
        }
        let label =
            |(level, units, peak): (f64, Vec<&str>, String)| (level, units.join(", ") + &peak);
        let mut labels: Vec<(f64, String)> = lines.into_iter().map(label).collect();
        labels.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        // Above its line; below it where the next line above would cross the label and there is room.
        let lines: Vec<f64> = labels.iter().map(|(line, _)| *line).collect();
        let is_near = |a: Option<&f64>, b: f64| a.is_some_and(|a| (a - b).abs() < LINE + 4.0);
        for (index, (level, _)) in labels.iter_mut().enumerate() {
            let before = index.checked_sub(1).and_then(|before| lines.get(before));
            let is_below =
                is_near(lines.get(index + 1), lines[index]) && !is_near(before, lines[index]);
            *level += if is_below { LINE } else { -6.0 };
        }
        // From the lowest label up, those that would overlap move up, but not out of the chart.
        let mut free = f64::INFINITY;
        for (level, _) in &mut labels {
            *level = level.min(free);
            free = *level - LINE;
        }
        let mut least = self.plane.top + 10.0;
        for (level, _) in labels.iter_mut().rev() {
            *level = level.max(least);
            least = *level + LINE;
        }
        for (level, label) in &labels {
            let text = SvgElement::text(self.right, *level, label);
            group = group.child(text.class("tick end halo"));
            let along = (0..=4_u8).map(|part| text_width(label) * f64::from(part) / 4.0);
            let right = self.right;
            self.taken.extend(along.map(|to| (right - to, level - 4.0)));
        }
        // The other basis, which may be shown too, has a column of its own where there is room.
        let widest = labels.iter().map(|(_, label)| text_width(label));
        self.right -= self
            .plane
            .width
            .pick(widest.fold(0.0, f64::max) + LINE, 0.0);
        group
    }

    fn bandwidth(&mut self, roof: &RooflineCeiling, others: &[(f64, f64)]) -> SvgElement {
        let [foot, knee] = self.plane.foot_and_knee(roof);
        let (_, memory) = roof.unit_and_memory();
        let bandwidth = Unit::BytesPerSecond.format(roof.bandwidth.0);
        let of = memory.map_or(String::new(), |memory| format!("{memory} "));
        let label = match self.plane.rates {
            Unit::Fraction => memory.unwrap_or_default().to_owned(),
            _ => format!("{of}{bandwidth}, {}", roof.basis),
        };
        let angle = (knee.1 - foot.1).atan2(knee.0 - foot.0);
        let (along, half) = ((angle.cos(), angle.sin()), text_width(&label) / 2.0);
        let on_line = |share: f64| {
            (
                foot.0 + share * (knee.0 - foot.0),
                foot.1 + share * (knee.1 - foot.1),
            )
        };
        // The middle of the text, above or below its line.
        let middle = |(share, below): (f64, bool)| {
            let ((x, y), off) = (on_line(share), if below { -11.0 } else { 10.0 });
            (x + off * along.1, y - off * along.0)
        };
        let room = |place: (f64, bool)| {
            let (x, y) = middle(place);
            // Beyond the axis it would cover the ticks.
            if x - half * along.0 < self.plane.left {
                return 0.0;
            }
            let distance = |&(to_x, to_y): &(f64, f64)| {
                let (dx, dy) = (to_x - x, to_y - y);
                let beyond = (dx * along.0 + dy * along.1).abs() - half;
                beyond.max(0.0).hypot(dx * along.1 - dy * along.0)
            };
            let taken = self.taken.iter().chain(others);
            taken.map(distance).fold(60.0, f64::min)
        };
        let places = [false, true].into_iter();
        let places = places.flat_map(|below| PLACES.map(|share| (share, below)));
        let best = places.reduce(|best, place| {
            if room(place) > room(best) {
                place
            } else {
                best
            }
        });
        let place = best.unwrap_or((0.5, false));
        let (x, y) = middle(place);
        self.taken
            .extend([-half, 0.0, half].map(|to| (x + to * along.0, y + to * along.1)));
        let (at_x, at_y) = on_line(place.0);
        let turn = format!(
            "translate({at_x:.1} {at_y:.1}) rotate({:.1})",
            angle.to_degrees()
        );
        SvgElement::text(0.0, if place.1 { 15.0 } else { -6.0 }, &label)
            .attribute("transform", &turn)
            .class("tick middle halo")
    }
}

/// A group that a page shows or hides.
fn basis_group(basis: Basis) -> SvgElement {
    let name = basis.to_string();
    SvgElement::new("g")
        .class(&format!("roofs {name}"))
        .attribute("data-basis", &name)
}

fn description(point: &PlottedOperator, roofs: &[&RooflineCeiling], rates: Unit) -> String {
    let rate = rates.format(point.flops_per_s.0);
    let intensity = match rates {
        Unit::Fraction => format!("{} × ridge point", format_significant(point.intensity)),
        _ => Unit::FlopsPerByte.format(point.intensity),
    };
    let mut text = format!(
        "{}\n{} · {}\n{rate} at {intensity}\n{} in {}",
        point.label,
        point.kind,
        point.phase,
        point.time_ns,
        Count(point.calls, "call")
    );
    if let Some(roof) = highest_roof(point, roofs) {
        let share = Unit::Fraction.format(point.flops_per_s.0 / roof.at(point.intensity).0);
        text += &format!("\n{share} of {} ({})", roof.label, roof.basis);
    }
    text
}

/// The highest roof above a point; roofs of another memory than the point's do not count.
fn highest_roof<'a>(
    point: &PlottedOperator,
    roofs: &[&'a RooflineCeiling],
) -> Option<&'a RooflineCeiling> {
    let is_over = |roof: &&&RooflineCeiling| {
        let (_, memory) = roof.unit_and_memory();
        memory.is_none_or(|memory| memory == point.phase)
    };
    let over: Vec<&RooflineCeiling> = roofs.iter().filter(is_over).copied().collect();
    let over = if over.is_empty() { roofs } else { &over };
    let height = |roof: &RooflineCeiling| roof.at(point.intensity).0;
    let higher = |a: &&&RooflineCeiling, b: &&&RooflineCeiling| height(a).total_cmp(&height(b));
    over.iter().max_by(higher).copied()
}

/// A closed path about a centre: circle, square, diamond or triangle, by number.
fn shape(number: usize, x: f64, y: f64, r: f64) -> String {
    match number % 4 {
        0 => format!(
            "M{:.1} {y:.1}a{r:.1} {r:.1} 0 1 0 {d:.1} 0a{r:.1} {r:.1} 0 1 0 -{d:.1} 0z",
            x - r,
            d = 2.0 * r
        ),
        1 => {
            let r = r * 0.88;
            format!(
                "M{:.1} {:.1}h{d:.1}v{d:.1}h-{d:.1}z",
                x - r,
                y - r,
                d = 2.0 * r
            )
        }
        2 => {
            let r = r * 1.2;
            format!(
                "M{x:.1} {:.1}l{r:.1} {r:.1}l-{r:.1} {r:.1}l-{r:.1} -{r:.1}z",
                y - r
            )
        }
        _ => format!(
            "M{x:.1} {:.1}L{:.1} {:.1}H{:.1}z",
            y - 1.2 * r,
            x + 1.1 * r,
            y + 0.8 * r,
            x - 1.1 * r
        ),
    }
}

#[cfg(test)]
mod tests {
    use llmprof_units::{BytesPerSecond, FlopsPerSecond, Nanos};

    use super::*;

    fn point(label: &str, phase: &str, intensity: f64, rate: f64) -> PlottedOperator {
        PlottedOperator {
            label: label.to_owned(),
            kind: "linear".to_owned(),
            phase: phase.to_owned(),
            intensity,
            flops_per_s: FlopsPerSecond(rate),
            time_ns: Nanos(1_000_000),
            calls: 24,
            anchor: None,
        }
    }

    fn sample() -> Roofline {
        let roof = |label: &str, peak, bandwidth, basis| RooflineCeiling {
            label: label.to_owned(),
            peak_flops_per_s: FlopsPerSecond(peak),
            bandwidth: BytesPerSecond(bandwidth),
            is_own: basis == Basis::Measured,
            basis,
        };
        Roofline {
            titles: None,
            roofs: vec![
                roof("bf16", 989.5e12, 4.8e12, Basis::Datasheet),
                roof("bf16", 700e12, 4.2e12, Basis::Measured),
            ],
            points: vec![
                point("gate_proj<T>", "prefill", 400.0, 500e12),
                point("gate_proj", "decode", 1.0, 3e12),
                point("softmax", "decode", 0.0, 0.0),
            ],
            own_lacks_peak: false,
        }
    }

    #[test]
    fn the_legend_names_what_is_drawn() {
        let mut view = sample();
        "embedding".clone_into(&mut view.points[2].kind);
        view.points.push(point("add", "decode", f64::INFINITY, 1e9));
        let text = roofline(&view, ChartWidth::Wide).inline();
        assert!(text.contains("linear") && !text.contains("embedding"));
        assert!(text.contains("not drawn: 2 operators without arithmetic or without DRAM traffic"));
    }

    #[test]
    fn snapshot() {
        insta::assert_snapshot!(roofline(&sample(), ChartWidth::Wide).inline());
    }

    /// Close ceilings once had their labels decades below, in another order.
    #[test]
    fn labels_of_close_peaks_keep_their_order_and_place() {
        let mut view = sample();
        let roof = view.roofs[0].clone();
        view.roofs = [("a", 60e12), ("b", 66e12), ("c", 149e12), ("d", 1000e12)]
            .map(|(label, peak)| RooflineCeiling {
                label: format!("{label}, DRAM"),
                peak_flops_per_s: FlopsPerSecond(peak),
                ..roof.clone()
            })
            .into();
        let text = roofline(&view, ChartWidth::Wide).inline();
        let height = |label: &str| -> f64 {
            let (before, _) = text.split_once(&format!(">{label} ")).unwrap();
            let (_, y) = before.rsplit_once(" y=\"").unwrap();
            y.split_once('"').unwrap().0.parse().unwrap()
        };
        let heights = ["d", "c", "b", "a"].map(height);
        assert!(heights.is_sorted(), "{heights:?}");
        let apart = heights.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(apart.fold(f64::MAX, f64::min) >= LINE - 0.1, "{heights:?}");
        assert!(heights[3] - heights[2] < 3.0 * LINE, "{heights:?}");
    }

    #[test]
    fn units_of_equal_peaks_share_a_label() {
        let mut view = sample();
        let roof = view.roofs[0].clone();
        view.roofs = ["vector f32, DRAM", "tensor tf32, DRAM"]
            .map(|label| RooflineCeiling {
                label: label.to_owned(),
                ..roof.clone()
            })
            .into();
        let text = roofline(&view, ChartWidth::Wide).inline();
        assert!(text.contains(">vector f32, tensor tf32 "), "{text}");
    }

    #[test]
    fn share_of_the_roof_by_hand() {
        // At 1 FLOP/B the memory feeds 4.8 TFLOP/s: 3 of them are 62.5 %.
        let view = sample();
        let roofs: Vec<&RooflineCeiling> = view.roofs.iter().collect();
        let text = description(&view.points[1], &roofs, Unit::FlopsPerSecond);
        assert!(text.contains("62.5 % of bf16 (datasheet)"), "{text}");
        // Of several roofs the highest: five numbers, not one for each.
        assert_eq!(text.matches('%').count(), 1, "{text}");
    }

    #[test]
    fn a_point_is_compared_with_the_roofs_of_its_memory() {
        let view = sample();
        let roof = |label: &str, peak| RooflineCeiling {
            label: label.to_owned(),
            peak_flops_per_s: FlopsPerSecond(peak),
            ..view.roofs[0].clone()
        };
        let (slow, fast, other) = (
            roof("FP32, DRAM", 60e12),
            roof("tensor bf16, DRAM", 900e12),
            roof("tensor bf16, L2", 990e12),
        );
        let roofs = [&slow, &fast, &other];
        let chosen = |phase: &str| {
            let point = point("gemm", phase, 1000.0, 50e12);
            highest_roof(&point, &roofs).map(|roof| roof.label.as_str())
        };
        assert_eq!(chosen("DRAM"), Some("tensor bf16, DRAM"));
        assert_eq!(chosen("L2"), Some("tensor bf16, L2"));
        assert_eq!(chosen("decode"), Some("tensor bf16, L2"));
    }

    #[test]
    fn points_without_a_place_are_counted() {
        let text = roofline(&sample(), ChartWidth::Wide).inline();
        assert_eq!(text.matches("data-kind").count(), 2);
        assert!(text.contains("1 operator without arithmetic"));
        assert!(
            roofline(&Roofline::default(), ChartWidth::Wide)
                .inline()
                .contains("Operators under the roofline")
        );
    }
}
