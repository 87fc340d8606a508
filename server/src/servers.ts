import type { Config } from './config/load.ts';
import type { ControlHandler } from './control-api/contract.ts';
import { createHttpServer, type HttpServer, type HttpServerOptions } from './http/server.ts';
import type { IngestHandler } from './ports/ingest.ts';
import type { DiscardCounters, MetricsRecorder } from './ports/telemetry.ts';

/** What answers on the ports. */
export interface ServerHandlers
  extends Pick<HttpServerOptions, 'clock' | 'logger' | 'readiness' | 'degraded'> {
  readonly receiver: IngestHandler;
  readonly control: ControlHandler;
  readonly discards: DiscardCounters;
  readonly recorder: MetricsRecorder;
}

export interface RunningServers {
  /** Of the receiving API, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** Of everything else, where `admin.port` has given it a port of its own. */
  readonly adminUrl?: string;
  stop(): Promise<void>;
}

/**
 * Listens on one port for everything, or with `admin.port` on two: calls on the first; control API, metrics and console on
 * the second; both say whether they are well. spec/contract.md, "Paths of the server". Rejects as `Listener.start` does, and
 * then listens to nothing.
 */
export async function startServers(config: Config, answering: ServerHandlers): Promise<RunningServers> {
  const { receiver, control, discards, recorder, ...shared } = answering;
  const settings = { ...shared, ...serverOptions(config) };
  const calls = { receiver, discards, recorder };
  const { port } = config.admin;
  let adminPort = port;
  const first = createHttpServer({
    ...settings,
    ...calls,
    ...(adminPort === undefined ? { control } : { adminPort: () => adminPort ?? 0 }),
  });
  const url = urlOf(await first.start(), config);
  if (port === undefined) return { url, stop: () => first.stop() };
  const second = createHttpServer({ ...settings, control, port, portKey: 'admin.port' });
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

/** What the configuration says about the ports. */
function serverOptions({ host, port, tls, publicUrl, limits, trustedProxies }: Config) {
  const { connections, requests, requestBytes } = limits;
  return {
    ...{ host, port, bounds: { connections, requests, bytes: requestBytes } },
    ...(tls === undefined ? {} : { tls }),
    ...(publicUrl === undefined ? {} : { publicUrl }),
    ...(trustedProxies.length === 0 ? {} : { trustedProxies }),
  };
}

function urlOf({ host, port }: { readonly host: string; readonly port: number }, { tls }: Config): string {
  return `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
