import { type App, type AppOptions, type Config, StartError, startApp } from '@millrace/server';
import type { ExitCode, Surroundings } from './surroundings.ts';

export interface Serving {
  readonly config: Config;
  readonly app: AppOptions;
  /** Called once, when the server takes calls. */
  onReady(app: App): void;
}

/** Runs the server until it is to stop, then stops it in order. A server that cannot start is a line on stderr. */
export async function serve(serving: Serving, place: Surroundings): Promise<ExitCode> {
  const app = await started(serving, place);
  if (typeof app === 'number') return app;
  serving.onReady(app);
  await place.stopping;
  await app.stop();
  return 0;
}

async function started(serving: Serving, place: Surroundings): Promise<App | ExitCode> {
  try {
    return await startApp(serving.config, serving.app);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    place.err.write(`millrace: ${error.message}\n`);
    return error.isOfSettings ? 2 : 1;
  }
}
