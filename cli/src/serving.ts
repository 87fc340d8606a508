import { setTimeout } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { type App, type AppOptions, type Config, StartError, startApp } from '@millrace/server';
import { CrashFiles, InvariantError } from '@millrace/server/crash-files';
import type { Notices } from './notices.ts';
import { type ExitCode, INVARIANT_FAILED, type RunContext } from './run-context.ts';

export interface Serving {
  readonly config: Config;
  readonly app: AppOptions;
  readonly notices: Notices;
  /** Called once, when the server accepts calls. */
  onReady(app: App): void;
}

/** Milliseconds that an interrupted start may take to end. */
const START_GRACE = 5000;

/**
 * Runs the server until a stop is requested or it cannot go on, then stops it in order. Says why, also why a
 * start fails.
 */
export async function serve(serving: Serving, context: RunContext): Promise<ExitCode> {
  process.prependListener('uncaughtException', (error) => endOnInvariant(error, serving, context.version));
  const starting = started(serving);
  if ((await Promise.race([starting, context.stopping.then(() => STOPPING)])) === STOPPING) {
    return await stopStarting(starting, serving.notices);
  }
  const app = await starting;
  if (typeof app === 'number') return app;
  keepNewObjectsTogether();
  serving.onReady(app);
  const failure = await Promise.race([
    context.stopping.then(() => undefined),
    ...(app.failed ? [app.failed] : []),
  ]);
  if (failure !== undefined) serving.notices.error({ event: 'server.failed', msg: failure });
  await app.stop();
  return failure === undefined ? 0 : 1;
}

const STOPPING = Symbol('stopping');

/**
 * Ends the process at once where an invariant does not hold: what it would do next may be wrong, and what is
 * on disk is as after a crash. Other errors are left to the listener of every verb.
 */
function endOnInvariant(error: unknown, { config, notices }: Serving, version: string): void {
  if (!(error instanceof InvariantError)) return;
  const path = new CrashFiles(config.data).write(error, version, Date.now());
  const where = path === undefined ? '' : `; ${path} has the facts, and nothing of an event`;
  notices.error({
    event: 'server.invariant_failed',
    msg:
      `a bug of Millrace: it is not so that ${error.message}. It ends before anything wrong is stored or sent, and nothing is lost: ` +
      `start it again, and report this${where}`,
    facts: { invariant: error.message, ...(path === undefined ? {} : { path }) },
  });
  process.exit(INVARIANT_FAILED);
}

/**
 * Lets V8 make all objects in the space for new ones. It guesses which will live long, and guesses wrong here
 * (docs/decisions/0040-request-memory.md). It is said when the threads have started: from then on V8 compiles
 * what else is loaded of Node's own modules, instead of taking the code that Node brings along.
 */
function keepNewObjectsTogether(): void {
  setFlagsFromString('--no-allocation-site-pretenuring');
}

async function stopStarting(starting: Promise<App | ExitCode>, notices: Notices): Promise<ExitCode> {
  const app = await Promise.race([starting, setTimeout(START_GRACE, STOPPING, { ref: false })]);
  if (app !== STOPPING) {
    if (typeof app === 'number') return app;
    await app.stop();
    return 0;
  }
  notices.error({
    event: 'server.not_started',
    msg: 'the start does not come to an end, so the process is ended: see the disk of the data folder',
  });
  // Only this signal ends a thread that waits for a disk. The data on disk is as after a crash.
  process.kill(process.pid, 'SIGKILL');
  return 1;
}

async function started({ config, app, notices }: Serving): Promise<App | ExitCode> {
  try {
    return await startApp(config, app);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    notices.error({ event: 'server.not_started', msg: error.message });
    return error.isOfSettings ? 2 : 1;
  }
}
