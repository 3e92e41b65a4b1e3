//! A run that is killed by the system, wherever it stands, and goes on.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Both stages, small: the embedded base policy on the smallest houses.
const SMALL_RUN: [&str; 26] = [
    "preset=corrected",
    "workers=2",
    "env.difficulty=0",
    "env.max_steps=3",
    "rollout.layout=transcript",
    "rollout.tasks=2",
    "rollout.group=2",
    "rollout.max_prompt_tokens=384",
    "rollout.max_response_tokens=12",
    "rollout.max_transcript_tokens=600",
    "analyzer.context_tokens=900",
    "analyzer.max_tokens=12",
    "analyzer.include_summary=false",
    "sft.tasks=3",
    "sft.rollouts=2",
    "sft.epochs=1",
    "sft.batch=4",
    "sft.gate_episodes=2",
    "sft.min_parse_rate=0",
    "batch.mini_rows=2",
    "batch.micro_tokens=1024",
    "train.updates=4",
    "eval.games=2",
    "eval.every=2",
    "checkpoint.every=1",
    "checkpoint.keep=2",
];

struct Run {
    runs: PathBuf,
    name: &'static str,
}

impl Run {
    fn folder(&self) -> PathBuf {
        self.runs.join(self.name)
    }

    /// Starts the run, or goes on with it where its folder can be opened.
    fn spawn(&self) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seed"));
        command.arg("train").stdout(Stdio::null()).stderr(Stdio::piped());
        if self.folder().exists() {
            command.arg("--resume").arg(self.folder());
        } else {
            // The running cargo's word first: the binary may come from a target folder that several clones share.
            let package = std::env::var_os("CARGO_MANIFEST_DIR")
                .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
            let base = package.join("../../data/tiny/base");
            let own = [
                format!("runs_dir={}", self.runs.display()),
                format!("name={}", self.name),
                format!("model.path={}", base.display()),
            ];
            let all = SMALL_RUN.iter().copied().chain(own.iter().map(String::as_str));
            // Any file of settings keeps the quick start's own away.
            let empty = self.runs.join("empty.toml");
            fs::write(&empty, "").unwrap();
            command.arg("--config").arg(empty);
            all.for_each(|set| {
                command.args(["--set", set]);
            });
        }
        command.spawn().unwrap()
    }

    fn finish(&self) {
        let output = self.spawn().wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    fn final_bytes(&self) -> Vec<Vec<u8>> {
        let checkpoint = self.folder().join("checkpoints/step-000004");
        ["model.safetensors", "trainer/state.json", "trainer/optimizer.safetensors"]
            .map(|name| fs::read(checkpoint.join(name)).unwrap())
            .into()
    }
}

/// Kills runs at spread moments until `kills` have hit, and compares each one that comes to its end.
fn killed(kills: usize) {
    let dir = tempfile::tempdir().unwrap();
    let whole = Run { runs: dir.path().to_path_buf(), name: "whole" };
    let started = Instant::now();
    whole.finish();
    let seconds = started.elapsed().as_secs_f64();
    let expected = whole.final_bytes();
    let run = Run { runs: dir.path().to_path_buf(), name: "killed" };
    let (mut hits, mut tries) = (0, 0);
    while hits < kills {
        // The golden ratio spreads the moments evenly over the length of a run, in a fixed order.
        let share = (f64::from(tries) * 0.618_034).fract();
        tries += 1;
        let mut child = run.spawn();
        sleep(Duration::from_secs_f64(0.02 + share * seconds * 0.7));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            None => hits += 1,
            Some(0) => {
                assert!(run.final_bytes() == expected, "after {hits} kills the weights differ");
                fs::remove_dir_all(run.folder()).unwrap();
            }
            Some(_) => panic!("after {hits} kills: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
    run.finish();
    assert!(run.final_bytes() == expected, "after {hits} kills the weights differ");
}

#[test]
fn a_killed_run_goes_on() {
    killed(3);
}

#[test]
#[ignore = "a minute: cargo test --release -p seed-cli --test cli -- --ignored"]
fn twenty_kills_change_no_byte() {
    killed(20);
}
