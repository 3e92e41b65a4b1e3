//! The embedded world: invented towns, people, bridges, novels and companies, as passages and questions.
//!
//! Nothing in it is true and nothing was taken from anywhere, so that a policy cannot know an answer: it has to search.
//! Everything follows from one seed, on every machine.

use super::options::SearchQaOptions;
use super::retriever::bm25::{Bm25, Bm25Profile};
use super::retriever::corpus::Corpus;
use super::retriever::{Document, Retriever};
use super::suite::{Question, SearchQa};
use crate::environment::EnvError;
use crate::household::stream::Stream;
use std::collections::HashSet;
use std::sync::Arc;

/// How big the world is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorldOptions {
    /// What everything is drawn from.
    pub seed: u64,
    /// Towns; there are four people, two bridges, two novels and one company for each of them.
    pub towns: usize,
}

impl Default for WorldOptions {
    /// 1,000 passages, 1,900 questions.
    fn default() -> Self {
        Self { seed: 0, towns: 100 }
    }
}

/// One fact: its question and the query that finds its passage.
struct Fact {
    question: String,
    answer: String,
    query: String,
}

struct Town {
    name: String,
    river: String,
    founded: u32,
    trade: &'static str,
}

struct Person {
    name: String,
    town: usize,
    born: u32,
}

/// A thing that a person made: a bridge, a novel, a company.
struct Work {
    name: String,
    maker: usize,
    town: usize,
    year: u32,
    subject: &'static str,
}

/// The embedded world.
pub struct World {
    towns: Vec<Town>,
    people: Vec<Person>,
    bridges: Vec<Work>,
    novels: Vec<Work>,
    companies: Vec<Work>,
}

const TRADES: [&str; 10] =
    ["salt", "glass", "barley", "copper", "linen", "clockmaking", "honey", "slate", "herring", "paper"];
const SUBJECTS: [&str; 12] = [
    "a lighthouse keeper who collects letters",
    "two sisters and a frozen orchard",
    "a mapmaker who loses the way",
    "the last ferry of the year",
    "a choir without a voice",
    "a trial over a stolen bell",
    "an inn at the edge of a marsh",
    "a shepherd who counts the stars",
    "a winter in a salt mine",
    "a blind chess master",
    "a village that moves uphill",
    "a forgotten language",
];
const GOODS: [&str; 8] = [
    "lanterns",
    "sail cloth",
    "pocket watches",
    "ink",
    "ceramic stoves",
    "violins",
    "telescopes",
    "bicycles",
];

/// Draws words that no language has.
struct Names {
    draws: Stream,
    used: HashSet<String>,
}

impl Names {
    fn word(&mut self, syllables: usize) -> String {
        const ONSETS: [&str; 18] =
            ["b", "br", "d", "dr", "f", "g", "gl", "h", "k", "kr", "l", "m", "n", "r", "s", "t", "v", "z"];
        const VOWELS: [&str; 7] = ["a", "e", "i", "o", "u", "ae", "io"];
        const CODAS: [&str; 8] = ["", "", "n", "r", "l", "s", "m", "nd"];
        let mut longer = syllables;
        loop {
            let mut word = String::new();
            for _ in 0..longer {
                for part in [&ONSETS[..], &VOWELS, &CODAS] {
                    word.push_str(part[self.draws.below(part.len())]);
                }
            }
            let name = capital(&word);
            if self.used.insert(name.clone()) {
                return name;
            }
            // Short words run out in a big world.
            longer = syllables + self.draws.below(2);
        }
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

impl World {
    /// The world of these options.
    pub fn new(options: WorldOptions) -> Self {
        let WorldOptions { seed, towns } = options;
        let mut names = Names { draws: Stream::new("search_qa world names", &[seed]), used: HashSet::new() };
        let mut draws = Stream::new("search_qa world facts", &[seed]);
        let mut pick = |list: &[&'static str]| list[draws.below(list.len())];
        let towns: Vec<Town> = (0..towns.max(2))
            .map(|_| Town { name: names.word(3), river: names.word(2), founded: 0, trade: pick(&TRADES) })
            .collect();
        let mut draws = Stream::new("search_qa world numbers", &[seed]);
        let mut towns = towns;
        towns.iter_mut().for_each(|town| town.founded = 900 + draws.below(700) as u32);
        let count = towns.len();
        let people: Vec<Person> = (0..4 * count)
            .map(|_| Person {
                name: format!("{} {}", names.word(2), names.word(3)),
                town: draws.below(count),
                born: 1750 + draws.below(150) as u32,
            })
            .collect();
        let mut works =
            |number: usize, subjects: &[&'static str], name: &mut dyn FnMut() -> String| -> Vec<Work> {
                let one = |_| {
                    let maker = draws.below(people.len());
                    let year = people[maker].born + 25 + draws.below(40) as u32;
                    let (town, subject) = (draws.below(count), subjects[draws.below(subjects.len())]);
                    Work { name: name(), maker, town, year, subject }
                };
                (0..number).map(one).collect()
            };
        let bridges = works(2 * count, &["stone", "iron", "timber", "brick"], &mut || {
            format!("{} Bridge", names.word(2))
        });
        let novels =
            works(2 * count, &SUBJECTS, &mut || format!("The {} of {}", names.word(2), names.word(2)));
        let companies = works(count, &GOODS, &mut || format!("{} Works", names.word(3)));
        Self { towns, people, bridges, novels, companies }
    }

    /// The passages: one for each town, person, bridge, novel and company, in this order.
    pub fn documents(&self) -> Vec<Document> {
        let mut texts = Vec::new();
        let mut add = |title: &str, text: String| {
            let quoted = if title.contains(' ') { format!("\"{title}\"") } else { title.to_owned() };
            texts.push(format!("{quoted}\n{text}"));
        };
        let town = |at: usize| &self.towns[at].name;
        for Town { name, river, founded, trade } in &self.towns {
            let text = format!(
                "{name} is a town on the river {river}. The river {river} flows through {name} from north to south. \
                 {name} was founded in {founded} and became known for its {trade}."
            );
            add(name, text);
        }
        for Person { name, town: home, born } in &self.people {
            let home = town(*home);
            let first = name.split(' ').next().unwrap_or(name);
            let text = format!(
                "{name} was born in {home} in {born}. {first} grew up in {home} and left the town as a young adult. \
                 The letters of {name} are kept in the archive of {home}."
            );
            add(name, text);
        }
        for Work { name, maker, town: place, year, subject } in &self.bridges {
            let (maker, place) = (&self.people[*maker].name, town(*place));
            let text = format!(
                "The {name} is a {subject} bridge in {place}. It was designed by {maker} and opened in {year}. \
                 Before the {name}, people crossed the water of {place} by ferry."
            );
            add(name, text);
        }
        for Work { name, maker, year, subject, .. } in &self.novels {
            let maker = &self.people[*maker].name;
            let text = format!(
                "{name} is a novel by {maker}, published in {year}. It tells of {subject}. {name} was the best known \
                 work of {maker}."
            );
            add(name, text);
        }
        for Work { name, maker, town: place, year, subject } in &self.companies {
            let (maker, place) = (&self.people[*maker].name, town(*place));
            let text = format!(
                "{name} is a company that makes {subject}. {maker} founded {name} in {year} in {place}. The workshops \
                 of {name} still stand in {place}."
            );
            add(name, text);
        }
        let document =
            |(at, contents)| Document { id: format!("own-{at}"), contents, other: Default::default() };
        texts.into_iter().enumerate().map(document).collect()
    }

    /// What is known of a person beside the name.
    fn of_person(&self, person: usize, who: &str) -> [Fact; 2] {
        let Person { name, town, born } = &self.people[person];
        let query = format!("{name} born");
        [
            Fact {
                question: format!("In which town was {who} born?"),
                answer: self.towns[*town].name.clone(),
                query: query.clone(),
            },
            Fact { question: format!("In which year was {who} born?"), answer: born.to_string(), query },
        ]
    }

    fn of_town(&self, town: usize, which: &str) -> [Fact; 2] {
        let Town { name, river, founded, .. } = &self.towns[town];
        let query = format!("{name} town river founded");
        [
            Fact {
                question: format!("Which river flows through {which}?"),
                answer: river.clone(),
                query: query.clone(),
            },
            Fact {
                question: format!("In which year was {which} founded?"),
                answer: founded.to_string(),
                query,
            },
        ]
    }

    /// The questions in a fixed order: those of one fact, of two, and comparisons.
    pub fn questions(&self) -> Vec<Question> {
        let mut questions = Vec::new();
        let mut add = |source: &str, question: String, answer: String, plan: Vec<String>| {
            questions.push(Question {
                question,
                golden_answers: vec![answer],
                data_source: source.to_owned(),
                plan,
            });
        };
        // What the passages of works are about, with the person behind each.
        let kinds: [(&[Work], &str, &str); 3] = [
            (&self.bridges, "designed the ", "the person who designed the "),
            (&self.novels, "wrote the novel ", "the author of the novel "),
            (&self.companies, "founded the company ", "the founder of the company "),
        ];
        for (works, verb, person) in kinds {
            for work in works {
                let query = format!("Who {verb}{}", work.name);
                let maker = self.people[work.maker].name.clone();
                add("one_fact", format!("Who {verb}{}?", work.name), maker, vec![query.clone()]);
                let facts = self.of_person(work.maker, &format!("{person}{}", work.name));
                // One of the two, so that no answer is found twice as often as the others.
                let [town, year] = facts;
                let fact = if work.year.is_multiple_of(2) { town } else { year };
                add("two_facts", fact.question, fact.answer, vec![query, fact.query]);
            }
        }
        for (at, town) in self.towns.iter().enumerate() {
            for fact in self.of_town(at, &town.name) {
                add("one_fact", fact.question, fact.answer, vec![fact.query]);
            }
        }
        for company in &self.companies {
            let which = format!("the town in which the company {} was founded", company.name);
            let [fact, _] = self.of_town(company.town, &which);
            let plan = vec![format!("In which town was {} founded", company.name), fact.query];
            add("two_facts", fact.question, fact.answer, plan);
        }
        for person in 0..self.people.len() {
            let [town, year] = self.of_person(person, &self.people[person].name);
            let fact = if self.people[person].born.is_multiple_of(2) { town } else { year };
            add("one_fact", fact.question, fact.answer, vec![fact.query]);
        }
        for pair in self.bridges.chunks_exact(2).filter(|pair| pair[0].year != pair[1].year) {
            let [one, two] = [&pair[0], &pair[1]];
            let first = if one.year < two.year { one } else { two };
            let question = format!("Which was opened first, the {} or the {}?", one.name, two.name);
            let plan = [one, two].map(|bridge| format!("{} opened", bridge.name)).to_vec();
            add("comparison", question, first.name.clone(), plan);
        }
        questions
    }

    /// The questions of the splits: every fifth is in `test`, the others are in `train`.
    pub fn splits(&self) -> Vec<(String, Vec<Question>)> {
        let (mut train, mut test) = (Vec::new(), Vec::new());
        for (at, question) in self.questions().into_iter().enumerate() {
            if at % 5 == 4 { test.push(question) } else { train.push(question) }
        }
        vec![("train".to_owned(), train), ("test".to_owned(), test)]
    }

    /// BM25 over the passages.
    ///
    /// # Errors
    /// Never in practice: the passages are well formed.
    pub fn retriever(&self) -> Result<Bm25, EnvError> {
        Bm25::build(Arc::new(Corpus::from_documents(&self.documents())), Bm25Profile::default())
    }

    /// The suite over this world with its own retriever.
    ///
    /// # Errors
    /// As [`World::retriever`].
    pub fn suite(&self, options: SearchQaOptions) -> Result<SearchQa, EnvError> {
        let retriever: Arc<dyn Retriever> = Arc::new(self.retriever()?);
        Ok(SearchQa::new(self.splits(), retriever, options))
    }
}
