import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Config } from '../config/load.ts';
import type { ControlHandler } from '../control-api/contract.ts';
import { ConsoleFiles } from '../http/console.ts';
import { createHttpServer, type HttpServer, type HttpServerOptions } from '../http/server.ts';
import { defined } from '../model/json.ts';
import type { IngestHandler } from '../ports/ingest.ts';
import type { IngestCounters, MetricsRecorder } from '../ports/telemetry.ts';
import { rolesOf } from './nodes.ts';

/** The build of the console, here and in the published package. */
const CONSOLE_FOLDER = fileURLToPath(new URL('../../../console/dist', import.meta.url));

/** The package with the browser library, of which only these files are read. */
const LIBRARY_PACKAGE = '@segment/analytics-next';

/** Where the package is; undefined on an installation that has left it out. */
function libraryFolder(): string | undefined {
  try {
    const manifest = createRequire(import.meta.url).resolve(`${LIBRARY_PACKAGE}/package.json`);
    return join(dirname(manifest), 'dist/umd');
  } catch {
    return undefined;
  }
}

/** The handlers behind the ports, with the state that the servers report. */
export interface ServerHandlers
  extends Pick<
    HttpServerOptions,
    'clock' | 'logger' | 'readiness' | 'degraded' | 'turns' | 'publicKey' | 'consentSettings'
  > {
  readonly receiver: IngestHandler;
  readonly control: ControlHandler;
  readonly discards: IngestCounters;
  readonly recorder: MetricsRecorder;
  /** The write key of the browser library at a path that a source has chosen. */
  readonly scriptKey: (path: string) => string | undefined;
}

export interface RunningServers {
  /** Base URL of the receiving API, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** Base URL of everything else, when `admin.port` gives it a port of its own. */
  readonly adminUrl?: string;
  stop(): Promise<void>;
}

/**
 * Listens on one port for everything, or with `admin.port` on two: calls on the first; control API, metrics
 * and console on the second; both say whether they are well. spec/contract.md, "Paths of the server". Rejects
 * as `Listener.start` does, and then listens to nothing.
 */
export async function startServers(config: Config, answering: ServerHandlers): Promise<RunningServers> {
  const { receiver, control, discards, recorder, scriptKey, ...shared } = answering;
  const settings = { ...shared, ...serverOptions(config) };
  const browserLibrary = { folder: config.browserLibrary ?? libraryFolder(), keyAt: scriptKey };
  const calls = rolesOf(config).includes('ingest') ? { receiver, discards, recorder, browserLibrary } : {};
  const operators = { control, console: new ConsoleFiles(CONSOLE_FOLDER) };
  const { port, host = config.host } = config.admin;
  let adminPort = port;
  const first = createHttpServer({
    ...settings,
    ...calls,
    ...(adminPort === undefined ? operators : { adminPort: () => adminPort ?? 0 }),
  });
  const url = urlOf(await first.start(), config);
  if (port === undefined) return { url, stop: () => first.stop() };
  const second = createHttpServer({
    ...settings,
    ...operators,
    ...{ host, port, hostKey: 'admin.host', portKey: 'admin.port' },
  });
  try {
    const address = await second.start();
    adminPort = address.port;
    const adminUrl = urlOf(address, config);
    return { url, adminUrl, stop: () => stopBoth(first, second) };
  } catch (error) {
    await stopBoth(first, second);
    throw error;
  }
}

async function stopBoth(first: HttpServer, second: HttpServer): Promise<void> {
  await Promise.all([first.stop(), second.stop()]);
}

/** The options of the HTTP server, from the configuration. */
function serverOptions({ host, port, admin, tls, publicUrl, limits, trustedProxies }: Config) {
  const { connections, requests, requestBytes } = limits;
  return {
    ...{ host, port, bounds: { connections, requests, bytes: requestBytes } },
    ...defined({
      tls,
      publicUrls: publicUrl === undefined ? undefined : [publicUrl].flat(),
      adminHosts: admin.hosts,
      trustedProxies: trustedProxies.length === 0 ? undefined : trustedProxies,
    }),
  };
}

function urlOf({ host, port }: { readonly host: string; readonly port: number }, { tls }: Config): string {
  return `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
