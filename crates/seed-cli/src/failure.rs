//! How a failure is shown: message, place in the file, what to do.

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use seed_trainer::config::ConfigError;
use std::error::Error;
use std::fmt;
use std::io::IsTerminal;
use std::process::ExitCode;

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
    place: Option<Box<(NamedSource<String>, LabeledSpan)>>,
    usage: bool,
}

impl Failure {
    /// Wrong input that no library has an error for.
    pub(crate) fn usage(message: String) -> Self {
        Self { error: message.into(), hint: None, place: None, usage: true }
    }

    /// Shows the failure on stderr. Exit code 2 for wrong input of the user, 1 for anything that failed later.
    pub(crate) fn print(self) -> ExitCode {
        let code = if self.usage { ExitCode::from(2) } else { ExitCode::FAILURE };
        let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let mut text = String::new();
        let shown = GraphicalReportHandler::new_themed(theme).with_width(110).render_report(&mut text, &self);
        if shown.is_err() {
            text = self.to_string();
        }
        eprint!("{text}");
        code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

impl Diagnostic for Failure {
    fn help(&self) -> Option<Box<dyn fmt::Display + '_>> {
        self.hint.as_ref().map(|hint| Box::new(hint) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|place| &place.0 as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.place.as_ref().map(|place| Box::new(std::iter::once(place.1.clone())) as Box<_>)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let place = error.place().map(|place| {
            let source = NamedSource::new(place.path.display().to_string(), place.text.clone());
            Box::new((source, LabeledSpan::new_with_span(Some("here".into()), place.span.clone())))
        });
        Self { hint: error.hint(), place, error: Box::new(error), usage: true }
    }
}

macro_rules! plain {
    ($($ty:ty),* $(,)?) => { $(impl From<$ty> for Failure {
        fn from(error: $ty) -> Self { Self { error: Box::new(error), hint: None, place: None, usage: false } }
    })* };
}
plain!(
    crate::play::PlayError,
    seed_envs::EnvError,
    seed_rollout::collect::CollectError,
    seed_rollout::dialogue::DialogueError,
    seed_rollout::record::RecordError,
    seed_rollout::replay::ReplayError,
    seed_trainer::import::ImportError,
    seed_trainer::pretrain::PretrainError,
    seed_trainer::run_folder::StorageError,
    seed_trainer::train::TrainError,
    seed_trainer::world::WorldError,
    std::io::Error,
);
