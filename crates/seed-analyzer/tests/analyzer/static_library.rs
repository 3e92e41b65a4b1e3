use seed_analyzer::library::{FoundBy, KeywordMatch, LibraryQuery, LookupOptions, SkillLibrary};
use std::path::Path;

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("written");
}

fn json(text: &str) -> SkillLibrary {
    let folder = tempfile::tempdir().expect("a scratch folder");
    write(folder.path(), "skills.json", text);
    SkillLibrary::load(&folder.path().join("skills.json")).expect("a library")
}

const HOUSE: &str = r#"{
  "general_skills": [
    {"skill_id": "gen_1", "title": "Look", "principle": "look around first", "when_to_apply": "at the start"},
    {"skill_id": "gen_2", "principle": "two"}, {"skill_id": "gen_3", "principle": "three"},
    {"skill_id": "gen_4", "principle": "four"}, {"skill_id": "gen_5", "principle": "five"},
    {"skill_id": "gen_6", "principle": "six"}, {"skill_id": "dyn_1", "principle": "learnt today"}
  ],
  "task_specific_skills": {
    "pick_and_place": [{"skill_id": "p", "title": "Carry", "principle": "take, then put"}],
    "heat": [{"skill_id": "h", "title": "Warm", "principle": "use the microwave"}]
  },
  "common_mistakes": [{"mistake_id": "m", "description": "going in circles", "why_it_happens": "no memory", "how_to_avoid": "keep a list"}],
  "task_keywords": {"pick_and_place": ["put", "place"], "heat": ["hot", "heat"]},
  "metadata": {"source": "test"}
}"#;

#[test]
fn a_json_library_is_rendered() {
    let library = json(HOUSE);
    let query =
        LibraryQuery { game_file: Some("train/pick_heat_then_place-Mug/trial"), ..LibraryQuery::default() };
    let found = library.lookup(&query, &LookupOptions::default()).expect("found");
    assert_eq!(found.found_by, FoundBy::GameFile);
    assert_eq!(found.types, ["heat"]);
    assert_eq!(
        found.text,
        "In general:\n- learnt today\n- Look: look around first (when: at the start)\n- two\n- three\n- four\n- five\n\n\
         For tasks of the type heat:\n- Warm: use the microwave\n\n\
         Mistakes to stay away from:\n- going in circles Why: no memory Instead: keep a list"
    );
}

#[test]
fn keywords_match_any_or_all() {
    let library = json(HOUSE);
    let query = LibraryQuery { prompt: "Put a hot mug on the shelf.", ..LibraryQuery::default() };
    let lookup = |options| library.lookup(&query, &options);
    let any = lookup(LookupOptions::default()).expect("found");
    assert_eq!((any.found_by, any.types.len()), (FoundBy::Keywords, 2));
    let all = LookupOptions { keyword_match: KeywordMatch::All, ..LookupOptions::default() };
    let error = lookup(all).expect_err("no type has all its words there").to_string();
    assert!(error.contains("pick_and_place, heat") && error.contains("general_only"), "{error}");
    let general = lookup(LookupOptions { general_only: true, ..all }).expect("allowed");
    assert_eq!((general.found_by, general.types.len()), (FoundBy::Nothing, 0));
    assert!(general.text.contains("look around first"));
    let both = LibraryQuery { prompt: "heat it until it is hot", ..query };
    assert_eq!(library.lookup(&both, &all).expect("found").types, ["heat"]);
    let everything = lookup(LookupOptions { everything: true, ..LookupOptions::default() }).expect("all");
    assert_eq!((everything.found_by, everything.types.len()), (FoundBy::Everything, 2));
    // The text "None" that once stood for a missing file finds nothing, and says so.
    let none = LibraryQuery { game_file: Some("None"), prompt: "", ..LibraryQuery::default() };
    assert!(library.lookup(&none, &LookupOptions::default()).is_err());
}

#[test]
fn questions_go_by_data_source() {
    let library = json(
        r#"{"query_type_skills": {
            "direct_retrieval": [{"principle": "d"}], "multi_hop_reasoning": [{"principle": "m"}],
            "entity_attribute_lookup": [{"principle": "a"}], "comparison": [{"principle": "c"}]}}"#,
    );
    let kind = |source, prompt| {
        let query = LibraryQuery { data_source: Some(source), prompt, ..LibraryQuery::default() };
        let found = library.lookup(&query, &LookupOptions { general_only: true, ..LookupOptions::default() });
        found.expect("allowed").types.first().cloned().unwrap_or_default()
    };
    let which = "Which is older, A or B?";
    assert_eq!(kind("popqa", which), "entity_attribute_lookup");
    assert_eq!(kind("nq", which), "direct_retrieval");
    assert_eq!(kind("triviaqa", ""), "direct_retrieval");
    assert_eq!(kind("hotpotqa", which), "multi_hop_reasoning");
    assert_eq!(kind("2wikimultihopqa", which), "comparison");
    assert_eq!(kind("musique", "Which is it for, A or B?"), "multi_hop_reasoning");
    assert_eq!(kind("bamboogle", "Who was it?"), "multi_hop_reasoning");
    assert_eq!(kind("own_data", which), "comparison");
    assert_eq!(kind("own_data", "Who was it?"), "");
}

#[test]
fn a_folder_of_markdown_files() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let map = r#"{
        "skill_files": {"general": "general.md", "carry": "carry.md", "light": "light.md"},
        "task_to_skill": {"pick_and_place": "carry", "pick_two": "carry", "look_at_obj": "light"},
        "task_keywords": {"carry": ["put"], "look_at_obj": ["lamp"]}
    }"#;
    write(folder.path(), "skill_mapping.json", map);
    for (name, text) in [("general.md", "# General\n"), ("carry.md", "# Carry\n"), ("light.md", "# Light\n")]
    {
        write(folder.path(), name, text);
    }
    let library = SkillLibrary::load(folder.path()).expect("a library");
    let lookup = |game_file, prompt| {
        let query = LibraryQuery { game_file, prompt, ..LibraryQuery::default() };
        library.lookup(&query, &LookupOptions::default()).expect("found")
    };
    assert_eq!(lookup(Some("x/pick_two_obj-Mug/trial"), "").text, "# General\n\n# Carry");
    assert_eq!(lookup(None, "examine it with the LAMP").text, "# General\n\n# Light");
    assert_eq!(lookup(None, "put it under the lamp").types, ["carry", "light"]);

    let refused = |map: &str, expected: &str| {
        write(folder.path(), "skill_mapping.json", map);
        let error = SkillLibrary::load(folder.path()).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(r#"{"skill_files": {"a": "../a.md"}}"#, "only names inside the folder");
    refused(r#"{"skill_files": {"a": "none.md"}}"#, "none.md: cannot read");
    refused(r#"{"skill_files": {"a": "carry.md"}, "task_to_skill": {"x": "b"}}"#, "sends `x` to \"b\"");
    refused(r#"{"skill_files": {}}"#, "is empty");
    refused("{", "EOF");
}

#[test]
fn broken_json_libraries() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let refused = |text: &str, expected: &str| {
        write(folder.path(), "skills.json", text);
        let error = SkillLibrary::load(&folder.path().join("skills.json")).expect_err("refused").to_string();
        assert!(error.contains("skills.json") && error.contains(expected), "{error}");
    };
    refused("{}", "neither");
    refused(r#"{"task_specific_skills": {"heat": "x"}}"#, "lessons of type `heat`");
    refused(
        r#"{"general_skills": [{"principle": "x"}], "task_keywords": {"cool": []}}"#,
        "names the type `cool`",
    );
}
