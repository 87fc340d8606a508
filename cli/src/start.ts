import { resolve } from 'node:path';
import { type App, type AppOptions, type Config, createLogger } from '@millrace/server';
import { isAdminExposed } from '@millrace/server/config';
import { CrashFiles } from '@millrace/server/crash-files';
import { readConfiguration, type ServerFlags, type Wanted } from './configuration.ts';
import { localUrl } from './greeting.ts';
import { type Notices, noticesOf } from './notices.ts';
import type { ExitCode, RunContext } from './run-context.ts';
import { serve } from './serving.ts';

export interface StartOptions extends ServerFlags {
  readonly config?: string;
  readonly delivery: boolean;
  /** Deliveries go on, although bugs have ended the server often. */
  readonly deliver?: boolean;
}

/**
 * `millrace start`: runs the server, configured by file, environment and flags; later ones take precedence.
 */
export async function start(options: StartOptions, context: RunContext): Promise<ExitCode> {
  const { config: path, delivery: isDelivering, deliver: goesOn = false, ...flags } = options;
  const notices = noticesOf(context.err);
  const file = fileOf(path, context.env);
  const wanted: Wanted = { flags, defaultHost: '0.0.0.0', file };
  const settings = readConfiguration(wanted, context, notices);
  if (!settings) return 2;
  const { config, lineAt } = settings;
  if (!file) {
    notices.info({
      event: 'settings.no_file',
      msg:
        'no configuration file is named (--config FILE or MILLRACE_CONFIG), so the sources and destinations ' +
        `are those the ${config.database === undefined ? 'data folder' : 'database'} has`,
    });
  }
  const isSending = isDelivering && (holdsBack(config.data, goesOn) ? 'held' : true);
  return serve(
    {
      config,
      app: { logger: createLogger(config.log, context.err), lineAt, isSending },
      notices,
      onReady: (app) => announce(notices, { app, config, isSending, version: context.version }),
    },
    context,
  );
}

/** Whether deliveries are held back, because bugs have ended the server three times within ten minutes. */
function holdsBack(folder: string, goesOn: boolean): boolean {
  const crashes = new CrashFiles(folder);
  if (goesOn) crashes.see();
  return crashes.isHolding();
}

/** Prints at every start the address of the server, its version and its store. */
function announce(
  notices: Notices,
  {
    app,
    config,
    isSending,
    version,
  }: { app: App; config: Config; isSending: AppOptions['isSending']; version: string },
): void {
  const { url, adminUrl, adminTokenFile, storeFormat } = app;
  const { node } = config;
  // Shown at every start: the first one may have failed after it created the token.
  if (adminTokenFile !== undefined) {
    const path = resolve(adminTokenFile);
    notices.info({
      event: 'server.token_file',
      msg: `the token of the control API is in ${path}`,
      facts: { path },
    });
  }
  const consoleUrl = `${localUrl(adminUrl ?? url)}/`;
  notices.info({
    event: 'server.console',
    msg: `the console is at ${consoleUrl}`,
    facts: { url: consoleUrl },
  });
  if (isAdminExposed(config)) {
    notices.warn({
      event: 'server.admin_exposed',
      msg:
        `control API, console and metrics answer whoever reaches ${config.host}: admin.port gives them a port of their own, ` +
        'and admin.host an address for it, such as 127.0.0.1',
      facts: { host: config.host, setting: 'admin.port' },
    });
  }
  if (isSending === 'held') {
    notices.warn({
      event: 'server.holding',
      msg:
        'a bug of Millrace has ended it three times within ten minutes, so it takes calls and delivers nothing until it is started with --deliver: ' +
        `${resolve(config.data)} has the crash files, and the runbook says what to do`,
    });
  }
  if (isSending === false) {
    notices.warn({ event: 'server.not_sending', msg: 'nothing is sent to anybody (--no-delivery)' });
  }
  const admin = adminUrl === undefined ? '' : ` and its control API on ${adminUrl}`;
  notices.info({
    event: 'server.started',
    msg: `ready on ${url}${admin} (version ${version}, store format ${storeFormat}, node ${node})`,
    facts: {
      ...{ version, storeFormat, node, url, port: Number(new URL(url).port) },
      ...(adminUrl === undefined ? {} : { adminUrl, adminPort: Number(new URL(adminUrl).port) }),
    },
  });
}

/**
 * The configuration file and who named it. An empty variable counts as unset: container setups unset
 * variables so.
 */
export function fileOf(path: string | undefined, env: NodeJS.ProcessEnv): Wanted['file'] {
  if (path !== undefined) return { path, namedBy: '--config' };
  const named = env['MILLRACE_CONFIG'];
  return named ? { path: named, namedBy: 'MILLRACE_CONFIG' } : undefined;
}
