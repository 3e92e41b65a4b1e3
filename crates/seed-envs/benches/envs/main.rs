//! `cargo xtask bench envs <environment> [options]`: speed and memory of the environments.

mod alfworld;
mod clock;
mod ezpoints;
mod peer;
mod search_qa;
mod sokoban;
mod webshop;

fn main() {
    // `cargo bench` adds `--bench`.
    let mut arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let known = "alfworld, sokoban, ezpoints, each with [--peer PYTHON]; search_qa [--peer PYTHON] [--passages N] [--rows N] \
        [--load URL]; webshop [--peer PYTHON --official FOLDER] [--products N,N,…]";
    if arguments.is_empty() {
        arguments.push("alfworld".into());
    }
    let name = arguments.remove(0);
    let outcome = match name.as_str() {
        "alfworld" => alfworld::run(&arguments),
        "search_qa" => search_qa::run(&arguments),
        "sokoban" => sokoban::run(&arguments),
        "ezpoints" => ezpoints::run(&arguments),
        "webshop" => webshop::run(&arguments),
        _ => Err(format!("no benchmark `{name}`; there is: {known}")),
    };
    if let Err(problem) = outcome {
        eprintln!("error: {problem}");
        std::process::exit(2);
    }
}
