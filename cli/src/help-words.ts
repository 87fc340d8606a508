import type { Command } from 'commander';

/**
 * Turns `help VERB` into the words that print it: `VERB --help`, for verbs below verbs too. Throws a `CommanderError`, after
 * saying what is wrong, when the words name no verb.
 */
export async function helpFor(program: Command, words: readonly string[]): Promise<readonly string[]> {
  let command = program;
  const path: string[] = [];
  for (const word of words.filter((word) => !word.startsWith('-') && word !== 'help')) {
    const below = command.commands.find((one) => one.name() === word);
    if (below === undefined) {
      // The parser says so itself, with what was meant; but what takes an argument would take the word for it.
      if (command.registeredArguments.length === 0)
        await program.parseAsync([...path, word], { from: 'user' });
      command.error(`millrace: '${command.name()}' has no verb '${word}'`);
    } else {
      path.push(word);
      command = below;
    }
  }
  return [...path, '--help'];
}
