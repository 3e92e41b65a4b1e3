//! A customer who knows the product: finds it, chooses what is asked for, buys.

use super::fuzzy::alike;
use super::goals::GoalOptions;
use super::reward::reduce_colour;
use super::session::{Session, View, parse_action};

/// The next action; `None` after the purchase, and where no search finds the product.
pub fn advise(session: &Session) -> Option<String> {
    let shop = session.shop();
    let goal = shop.goal(session.goal());
    let wanted = goal.product();
    let click = |key: &str| Some(format!("click[{key}]"));
    let by_name = search(wanted.name());
    let by_query = search(&format!("<q> {}", wanted.catalogue().word(wanted.query())));
    match session.view() {
        View::Done => None,
        View::Search => Some(by_name),
        View::Sub(_) => click("< prev"),
        View::Item if session.product().is_some_and(|product| product.number == wanted.number) => {
            choose(session).or_else(|| click("buy now"))
        }
        View::Item => click("back to search"),
        View::Results => {
            let (shown, _) = session.results();
            if shown.contains(&wanted.number) {
                return click(&wanted.asin().to_lowercase());
            }
            if session.is_ahead(wanted.number) {
                return click("next >");
            }
            let asked = |query: &str| {
                let argument = parse_action(query).1.map(str::to_lowercase);
                argument.as_deref() == session.keywords()
            };
            match (asked(&by_name), asked(&by_query)) {
                (false, false) => Some(by_name),
                (true, _) => Some(by_query),
                (false, true) => None,
            }
        }
    }
}

/// A search whose words cannot be taken for brackets or line ends.
fn search(words: &str) -> String {
    format!("search[{}]", words.replace(['[', ']', '\n'], " "))
}

/// A click on a wanted option that is not chosen yet.
fn choose(session: &Session) -> Option<String> {
    let shop = session.shop();
    let goal = shop.goal(session.goal());
    let product = session.product()?;
    let catalogue = product.catalogue();
    let can_click = |value: &str| {
        let action = format!("click[{value}]");
        (parse_action(&action) == ("click", Some(value)) && value != "search").then_some(action)
    };
    match goal.options() {
        GoalOptions::Synthetic(pairs) => pairs
            .into_iter()
            .filter(|pair| !session.chosen().any(|chosen| chosen == *pair))
            .filter(|(name, value)| session.leads_to(value, name))
            .find_map(|(_, value)| can_click(value)),
        GoalOptions::Human(values) => {
            let fits = |value: &str, wanted: &str| alike(reduce_colour(value), reduce_colour(wanted));
            values.iter().filter(|wanted| !session.chosen().any(|(_, value)| fits(value, wanted))).find_map(
                |wanted| {
                    product
                        .options()
                        .filter(|option| {
                            let name = catalogue.word(option.name);
                            !session.chosen().any(|(chosen, _)| chosen == name)
                        })
                        .find_map(|option| {
                            let name = catalogue.word(option.name);
                            let mut values = option.values.texts();
                            values
                                .find(|value| fits(value, wanted) && session.leads_to(value, name))
                                .and_then(can_click)
                        })
                },
            )
        }
    }
}
