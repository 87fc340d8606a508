import type { Command } from 'commander';
import { SHELLS } from './completion-script.ts';
import { outlineOf } from './outline.ts';
import type { ExitCode, Surroundings } from './surroundings.ts';

export interface CompletionOptions {
  /** The argument of the verb, one of `SHELLS`. */
  readonly shell: string;
  readonly program: Command;
}

/** `millrace completion bash`: prints a script generated from the grammar, with every verb of this version. */
export async function completion(
  { shell, program }: CompletionOptions,
  place: Surroundings,
): Promise<ExitCode> {
  const script = SHELLS[shell];
  if (script === undefined) return 2;
  place.out.write(script(outlineOf(program)));
  return 0;
}
