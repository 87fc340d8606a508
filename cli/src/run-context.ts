/** The parts of the process that a verb may use. */
export interface RunContext {
  readonly env: NodeJS.ProcessEnv;
  /** Version of this program. */
  readonly version: string;
  /** Input for answers to questions. */
  readonly in: NodeJS.ReadStream;
  /** Output for results. */
  readonly out: NodeJS.WriteStream;
  /** Output for everything else: progress, warnings, errors, logs. */
  readonly err: NodeJS.WriteStream;
  /** Resolves when the verb has to stop: a signal came, or the reader of the results is gone. */
  readonly stopping: Promise<void>;
}

/** 0 success, 1 failure, 2 wrong usage or configuration. spec/contract.md, "Exit codes". */
export type ExitCode = 0 | 1 | 2;

/**
 * An invariant did not hold: a bug, and not one of those codes by which a verb ends. The number is that of
 * sysexits.
 */
export const INVARIANT_FAILED = 70;
