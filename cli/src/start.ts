import { resolve } from 'node:path';
import { type App, createLogger } from '@millrace/server';
import { readConfiguration, type ServerFlags, type Wanted } from './configuration.ts';
import { localUrl } from './greeting.ts';
import { serve } from './serving.ts';
import type { ExitCode, Surroundings } from './surroundings.ts';

export interface StartOptions extends ServerFlags {
  readonly config?: string;
  readonly delivery: boolean;
}

/** `millrace start`: runs the server, configured by file, environment and flags; later ones take precedence. */
export async function start(options: StartOptions, place: Surroundings): Promise<ExitCode> {
  const { config: path, delivery: isSending, ...flags } = options;
  const file = fileOf(path, place.env);
  const wanted: Wanted = { flags, defaultHost: '0.0.0.0', ...(file ? { file } : {}) };
  const settings = readConfiguration(wanted, place);
  if (!settings) return 2;
  const { config, lineAt } = settings;
  if (!file) {
    place.err.write(
      'millrace: no configuration file is named (--config FILE or MILLRACE_CONFIG), so the sources and destinations ' +
        `are those the ${config.database === undefined ? 'data folder' : 'database'} has.\n`,
    );
  }
  const onReady = ({ url, adminUrl, adminTokenFile }: App) => {
    // Shown at every start: the first one may have failed after it created the token.
    if (adminTokenFile !== undefined) {
      place.err.write(`millrace: the token of the control API is in ${resolve(adminTokenFile)}\n`);
    }
    const admin = adminUrl === undefined ? '' : ` and its control API on ${adminUrl}`;
    place.err.write(`millrace: the console is at ${localUrl(adminUrl ?? url)}/\n`);
    if (!isSending) place.err.write('millrace: nothing is sent to anybody (--no-delivery)\n');
    place.err.write(`millrace is ready on ${url}${admin}\n`);
  };
  return serve(
    { config, app: { logger: createLogger(config.log, place.err), lineAt, isSending }, onReady },
    place,
  );
}

/** The configuration file and who named it. An empty variable counts as unset: container setups unset variables so. */
export function fileOf(path: string | undefined, env: NodeJS.ProcessEnv): Wanted['file'] {
  if (path !== undefined) return { path, namedBy: '--config' };
  const named = env['MILLRACE_CONFIG'];
  return named ? { path: named, namedBy: 'MILLRACE_CONFIG' } : undefined;
}
