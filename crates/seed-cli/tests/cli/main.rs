//! The command as a user runs it: exit code, stdout, stderr.

mod kills;

use expect_test::{Expect, expect};
use std::process::{Command, Output};

fn seed(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seed"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SEED__")) {
        command.env_remove(name);
    }
    command.args(arguments).output().expect("the binary runs")
}

/// What stands on stderr below a heading: `expect!` takes the common indentation away, and the heading has none.
fn report(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().fold("stderr".to_owned(), |report, line| report + "\n" + line.trim_end())
}

#[track_caller]
fn fails(arguments: &[&str], code: i32, stderr: Expect) {
    let output = seed(arguments);
    assert_eq!(output.status.code(), Some(code));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    stderr.assert_eq(&report(&output));
}

#[test]
fn an_unknown_key_shows_the_line_and_the_neighbour() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("alf.toml"), "seed = 1\n[opd]\nbta = 5\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_seed"));
    let output =
        command.current_dir(dir.path()).args(["config", "show", "--config", "alf.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    expect![[r#"
        stderr
          × unknown key `opd.bta` (alf.toml:3)
           ╭─[alf.toml:3:1]
         2 │ [opd]
         3 │ bta = 5
           · ───┬───
           ·    ╰── here
           ╰────
          help: did you mean `opd.beta`? `seed config keys opd` lists them"#]]
    .assert_eq(&report(&output));
}

#[test]
fn a_set_with_an_unknown_value() {
    fails(
        &["config", "show", "--set", "opd.gate=wide"],
        2,
        expect![[r#"
            stderr
              × `opd.gate` is "wide", expected "sigmoid_gap" | "constant" | "entropy" | "soft_or" | "hard" (`--set`
              │ number 1)
              help: `seed config keys opd.gate` says what it means"#]],
    );
}

#[test]
fn a_folder_that_is_no_run() {
    fails(
        &["report", "/nonexistent"],
        1,
        expect!["stderr\n  × /nonexistent: not a run folder, it has no `config.toml`"],
    );
}

#[test]
fn shown_values_carry_their_origin_and_read_back() {
    let output = seed(&["config", "show", "--set", "preset=corrected", "--set", "opd.beta=2"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nbeta = 2  # `--set` number 2\n"), "{text}");
    assert!(text.contains("\nscope = \"minibatch\"  # preset `corrected` for `household`\n"), "{text}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, &text).unwrap();
    let again = seed(&["config", "show", "--config", path.to_str().unwrap()]);
    let values =
        |text: &str| text.lines().map(|l| l.split("  # ").next().unwrap().to_string()).collect::<Vec<_>>();
    assert_eq!(values(&String::from_utf8(again.stdout).unwrap()), values(&text));
}

#[test]
fn a_report_is_one_file_without_outside_references() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path();
    std::fs::create_dir_all(run.join("skills")).unwrap();
    std::fs::create_dir_all(run.join("rollouts")).unwrap();
    std::fs::write(run.join("config.toml"), "seed = 1 # <origin>\n").unwrap();
    std::fs::write(
        run.join("metrics.jsonl"),
        "{\"step\":0,\"eval/unseen/success\":0.1,\"eval/unseen/games\":100,\"eval/unseen/success/put\":0.2}\n\
         {\"step\":5,\"eval/unseen/success\":0.6,\"eval/unseen/games\":100,\"eval/unseen/success/put\":0.7,\"episode/success\":0.5}\n\
         {\"step\":6,\"torn",
    )
    .unwrap();
    std::fs::write(
        run.join("skills/step-000005.jsonl"),
        "{\"task\":\"put it\",\"won\":true,\"skill\":\"look <first>\"}\n{\"task\":\"x\",\"won\":false,\"skill\":null,\"error\":\"no JSON\"}\n",
    )
    .unwrap();
    std::fs::write(
        run.join("rollouts/step-000005.tokens.json"),
        r#"{"task":"put it","won":true,"skill":"s","tokens":[{"text":"You","sampled":false},{"text":" go","sampled":true,"gap":0.5,"gate":0.92,"logp":-1.0,"advantage":0.3}]}"#,
    )
    .unwrap();
    let output = seed(&["report", run.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = String::from_utf8(output.stdout).unwrap();
    let html = std::fs::read_to_string(path.trim()).unwrap();
    for part in [
        "unseen: 10.0 % → 60.0 %",
        "look &lt;first&gt;",
        "no skill: no JSON",
        "gap +0.500 gate 0.920",
        "<td>put</td><td class=\"n\">20.0 %</td><td class=\"n\">70.0 %</td>",
        "seed = 1 # &lt;origin&gt;",
    ] {
        assert!(html.contains(part), "no `{part}` in the report");
    }
    for outside in ["http:", "https:", "<script", "src=", "url(", "@import"] {
        assert!(!html.contains(outside), "`{outside}` in the report");
    }
}

/// Writes two passages and returns their file.
fn passages(folder: &std::path::Path) -> String {
    let path = folder.join("corpus.jsonl");
    let row = |id: &str, text: &str| {
        format!("{{\"id\": \"{id}\", \"contents\": \"{text}\\n{text} stands here\"}}\n")
    };
    std::fs::write(&path, row("a", "bridge") + &row("b", "tower")).expect("written");
    path.display().to_string()
}

#[test]
fn an_index_is_built_and_served_until_the_server_is_told_to_end() {
    use std::io::{BufRead, BufReader, Read, Write};
    let folder = tempfile::tempdir().expect("a folder");
    let corpus = passages(folder.path());
    let index = folder.path().join("corpus.bm25").display().to_string();
    let built = seed(&["index", "bm25", "--corpus", &corpus, "--out", &index]);
    assert!(built.status.success(), "{}", report(&built));
    assert!(report(&built).contains("2 passages"), "{}", report(&built));

    let mut server = Command::new(env!("CARGO_BIN_EXE_seed"))
        .args(["serve-retriever", "--corpus", &corpus, "--index", &index, "--port", "0"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut lines =
        BufReader::new(server.stderr.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    let mut told = String::new();
    let address = loop {
        let line = lines.next().unwrap_or_else(|| panic!("the server ended: {told}"));
        told.push_str(&line);
        if let Some((_, rest)) = line.split_once("http://") {
            break rest.split_once('/').expect("a path").0.to_owned();
        }
    };
    assert!(told.contains("in all"), "the need of memory comes first: {told}");
    let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
    let body = r#"{"query": "tower", "topk": 1}"#;
    let head =
        format!("POST /retrieve HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}", body.len());
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert!(
        answer.ends_with(r#"{"result":[[{"id":"b","contents":"tower\ntower stands here"}]]}"#),
        "{answer}"
    );
    let told_to_end = Command::new("kill").args(["-TERM", &server.id().to_string()]).status().expect("kill");
    assert!(told_to_end.success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(rest, ["stopped after 1 searches"]);
    assert_eq!(server.wait().expect("it ended").code(), Some(0));
}

#[test]
fn retrieval_commands_say_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let corpus = passages(folder.path());
    let missing = folder.path().join("nowhere.jsonl").display().to_string();
    for (arguments, code, part) in [
        (vec!["serve-retriever", "--corpus", &corpus, "--profile", "bm42"], 2, "no BM25 profile `bm42`"),
        (vec!["serve-retriever", "--corpus", &missing], 1, "nowhere.jsonl: cannot read"),
        (vec!["serve-retriever", "--corpus", &corpus, "--matrix", "m"], 2, "--encoder"),
        (vec!["serve-retriever", "--index", "i"], 2, "give --corpus"),
        (vec!["index", "dense", "--corpus", &corpus, "--out", "m"], 2, "give --encoder"),
        (vec!["serve-retriever", "--top-k", "0"], 2, "`--top-k` is 0"),
        (vec!["index", "bm25", "--corpus", &missing, "--out", "m"], 1, "nowhere.jsonl: cannot read"),
    ] {
        let output = seed(&arguments);
        let told = report(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        assert!(told.contains(part), "{arguments:?}: {told}");
    }
}

#[test]
fn a_plan_counts_parameters_and_bytes_without_loading_anything() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("config.json");
    std::fs::write(
        &model,
        r#"{"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
            "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "rms_norm_eps": 1e-6,
            "rope_theta": 1000000.0, "max_position_embeddings": 32768, "tie_word_embeddings": true}"#,
    )
    .unwrap();
    let run = dir.path().join("run.toml");
    std::fs::write(&run, "workers = 2\n[loss]\nkl_coef = 0.01\n[batch]\nmini_rows = 256\n").unwrap();
    let (run, model) = (run.to_str().unwrap(), model.to_str().unwrap());
    let shape = ["--rows", "2", "--prompt", "1000", "--response", "24"];
    let plan = |more: &[&str]| {
        let output = seed(&[&["plan", run, model], &shape[..], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().replace(dir.path().to_str().unwrap(), "DIR")
    };
    // By hand: 494,032,768 weights of 4 bytes; gradients of two workers and their sum, two moments, one reference.
    expect![[r#"
        model           DIR/config.json (qwen2, 24 blocks of width 896)
        trained         all weights in f32
        row             1000 prompt + 24 response tokens
        pass            2 rows = 2048 tokens; 2 at a time; one device
        generation      128 sequences at a time
        parameters           494.033 M
        trainable            494.033 M
        forward             1569.009 GFLOP
        with backward       4707.027 GFLOP
        on each device
          weights             1976.1 MB
          copies              1976.1 MB
          gradients           5928.4 MB
          optimiser           3952.3 MB
          activations         8170.5 MB
          cache               3221.2 MB
          training peak      18051.2 MB
          generation         11125.7 MB
    "#]]
    .assert_eq(&plan(&[]));
    // The published size of Qwen2.5-0.5B, and half the bytes in half the width.
    assert!(plan(&[]).contains("494.033 M"));
    assert!(plan(&["--bf16"]).contains("weights              988.1 MB"));
    assert!(plan(&["--lora", "16"]).contains("an adapter of rank 16"));

    fails(
        &["plan", "a", "b"],
        2,
        expect![[r#"
            stderr
              × one model at a time, found `a` and `b`"#]],
    );
    fails(
        &["plan", "nowhere"],
        2,
        expect![[r#"
            stderr
              × nowhere: cannot read the configuration: No such file or directory (os error 2)"#]],
    );
    fails(
        &["plan", run, model, "--rows", "0"],
        2,
        expect![[r#"
            stderr
              × `--rows` is 0, expected at least 1"#]],
    );
}
