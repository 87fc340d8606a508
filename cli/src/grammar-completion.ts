import { Argument, type Command } from 'commander';
import type { Run } from './grammar-options.ts';

/** The verb that prints completion scripts. */
export function addCompletion(program: Command, run: Run): void {
  program
    .command('completion')
    .description('print a script that lets a shell complete verbs, options and their values')
    .addArgument(new Argument('<shell>', 'the shell').choices(['bash', 'zsh', 'fish']))
    .addHelpText(
      'after',
      `
Examples:
  source <(millrace completion bash)     # in ~/.bashrc
  source <(millrace completion zsh)      # in ~/.zshrc, after compinit
  millrace completion fish > ~/.config/fish/completions/millrace.fish`,
    )
    .action((shell: string) =>
      run(async () => (await import('./completion.ts')).completion)({ shell, program }),
    );
}
