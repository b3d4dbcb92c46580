"""Extensions of pi in TypeScript and JavaScript: their process, and what they reach. Imports `extensions` and below."""
