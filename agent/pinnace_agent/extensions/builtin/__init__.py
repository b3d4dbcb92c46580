"""Extensions that are part of the program, written as any other."""
