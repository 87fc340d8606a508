import picocolors from 'picocolors';

/** The colours lines are drawn in; without colour every function returns its text. */
export interface Paint {
  dim(text: string): string;
  bold(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  red(text: string): string;
  cyan(text: string): string;
}

/**
 * Colour only on a terminal, and not where NO_COLOR is set (to anything but nothing) or the terminal is `dumb`.
 * Not left to the library, which also colours in pipes when `CI` is set.
 */
export function paintFor(output: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv): Paint {
  return picocolors.createColors(output.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb');
}
