import picocolors from 'picocolors';

/** How lines are drawn on an output: the colours, without which every function returns its text, and the room there is. */
export interface Paint {
  /** Columns of the terminal; absent where the output is none. */
  readonly columns?: number;
  dim(text: string): string;
  bold(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  red(text: string): string;
  cyan(text: string): string;
}

/**
 * Colour and a width only on a terminal; colour not where NO_COLOR is set (to anything but nothing) or the terminal is `dumb`.
 * Not left to the library, which also colours in pipes when `CI` is set.
 */
export function paintFor(
  output: { readonly isTTY?: boolean; readonly columns?: number },
  env: NodeJS.ProcessEnv,
): Paint {
  const colours = picocolors.createColors(
    output.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb',
  );
  // A terminal that does not know its width says 0.
  return output.isTTY === true && output.columns ? { ...colours, columns: output.columns } : colours;
}
