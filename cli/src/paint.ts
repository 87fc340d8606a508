import picocolors from 'picocolors';

/** Colours and width of an output. Without colours, each function returns its text unchanged. */
export interface Paint {
  /** Columns of the terminal. Absent for other outputs. */
  readonly columns?: number;
  dim(text: string): string;
  bold(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  red(text: string): string;
  cyan(text: string): string;
}

/**
 * Uses colour and width on a terminal only. NO_COLOR (set and not empty) and a `dumb` terminal turn colour
 * off. The library's own check is not used: it also colours pipes when `CI` is set.
 */
export function paintFor(
  output: { readonly isTTY?: boolean; readonly columns?: number },
  env: NodeJS.ProcessEnv,
): Paint {
  const colours = picocolors.createColors(
    output.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb',
  );
  // A terminal of unknown width reports 0.
  return output.isTTY === true && output.columns ? { ...colours, columns: output.columns } : colours;
}
