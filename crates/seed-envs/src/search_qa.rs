//! Search-QA: questions answered with the help of a retriever.
