/** What a verb may touch of the process it runs in. */
export interface Surroundings {
  readonly env: NodeJS.ProcessEnv;
  /** Of this program. */
  readonly version: string;
  /** Answers to questions. */
  readonly in: NodeJS.ReadStream;
  /** Results. */
  readonly out: NodeJS.WriteStream;
  /** Everything else: what is going on, warnings, errors, logs. */
  readonly err: NodeJS.WriteStream;
  /** Resolves when the verb is to stop: a signal came, or nobody reads the results any more. */
  readonly stopping: Promise<void>;
}

/** 0 done, 1 failed, 2 wrong usage or configuration. spec/contract.md, "Exit codes". */
export type ExitCode = 0 | 1 | 2;
