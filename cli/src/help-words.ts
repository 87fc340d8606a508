import type { Command } from 'commander';

/**
 * Turns `help VERB` into `VERB --help`, also for nested verbs. When the words name no verb, prints the error and throws a
 * `CommanderError`.
 */
export async function helpFor(program: Command, words: readonly string[]): Promise<readonly string[]> {
  let command = program;
  const path: string[] = [];
  for (const word of words.filter((word) => !word.startsWith('-') && word !== 'help')) {
    const below = command.commands.find((one) => one.name() === word);
    if (below === undefined) {
      // The parser reports this with a suggestion. A verb with an argument would take the word for its argument.
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
