//! The names that agents read, made from internal ones.

use super::game::Strings;
use super::pddl::{Domain, Problem};
use std::collections::HashMap;

/// What separates an object's class from its position in an internal name.
const SEPARATOR: &str = "_bar_";

/// Display names by entity.
///
/// An internal name with `_bar_` becomes its class and a number; numbers of a class are handed out from their
/// count downwards, in the order in which `order` lists the entities (sorted, unless the names are shuffled).
/// Any other name is followed by one blank, as in the reference.
pub(super) fn display_names(problem: &Problem, mentioned: &[bool], order: &[u16]) -> Strings {
    let class = |entity: u16| {
        let id = problem.object(entity as usize);
        let (base, _) = id.split_once(SEPARATOR)?;
        // A sink and its basin are two objects; the class name alone would not tell them apart.
        Some((base, id.contains("basin")))
    };
    let mut left: HashMap<(&str, bool), usize> = HashMap::new();
    for class in order.iter().filter_map(|&entity| class(entity)) {
        *left.entry(class).or_default() += 1;
    }
    // `sink` with basin and a plain class `sinkbasin` would share numbers.
    let mut numbers: Vec<usize> = vec![0; problem.object_count()];
    for &entity in order {
        if let Some(class) = class(entity)
            && let Some(count) = left.get_mut(&class)
        {
            numbers[entity as usize] = *count;
            *count -= 1;
        }
    }
    let mut names = Strings::default();
    let mut name = String::new();
    for entity in 0..problem.object_count() {
        name.clear();
        match class(entity as u16) {
            Some((base, basin)) if mentioned[entity] => {
                name.push_str(base);
                if basin {
                    name.push_str("basin");
                }
                name.push_str(&format!(" {}", numbers[entity]));
            }
            _ => {
                name.push_str(problem.object(entity));
                name.push(' ');
            }
        }
        names.push(&name);
    }
    names.shrink()
}

impl Problem {
    /// Which objects an initial fact mentions; only those are entities of the text world.
    pub(super) fn mentioned(&self, domain: &Domain) -> Vec<bool> {
        let mut mentioned = vec![false; self.object_count()];
        for (_, arguments) in self.facts(domain) {
            for &argument in arguments {
                mentioned[argument as usize] = true;
            }
        }
        mentioned
    }

    /// The initial facts: predicate and arguments.
    pub(super) fn facts<'p>(&'p self, domain: &'p Domain) -> impl Iterator<Item = (u16, &'p [u16])> {
        let mut rest = &self.init[..];
        std::iter::from_fn(move || {
            let (&predicate, after) = rest.split_first()?;
            let (arguments, after) = after.split_at(domain.predicates[predicate as usize].arity);
            rest = after;
            Some((predicate, arguments))
        })
    }
}
