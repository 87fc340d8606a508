import { createRequire } from 'node:module';
import { Analytics as Node1 } from 'segment-node-1';
import { Analytics as Node2 } from 'segment-node-2';
import { Analytics as Node30 } from 'segment-node-3.0';
import { Analytics as Node31 } from 'segment-node-3.1';
import { CALLS } from './calls.ts';
import { type Client, type Order, type Outcome, WAYS, type Way } from './client.ts';
import { CLIENT_TIMEOUT } from './faults.ts';

const require = createRequire(import.meta.url);

/** The version that is really installed, not the one asked for. */
export function versionOf(packageName: string): string {
  return (require(`${packageName}/package.json`) as { version: string }).version;
}

type Report = (error?: unknown) => void;

/** The methods that all of them have; their own types differ elsewhere. */
interface Calls {
  identify(fields: object, report: Report): unknown;
  track(fields: object, report: Report): unknown;
  page(fields: object, report: Report): unknown;
  screen(fields: object, report: Report): unknown;
  group(fields: object, report: Report): unknown;
  alias(fields: object, report: Report): unknown;
}

interface Settings {
  readonly writeKey: string;
  readonly host: string;
  readonly maxEventsInBatch: number;
  readonly httpRequestTimeout: number;
}
type Modern = new (
  settings: Settings,
) => Calls & { closeAndFlush(options: { timeout: number }): Promise<void> };

/** Makes all calls; the promise is the end of the last one, good or bad, as the client itself reports it. */
function makeCalls(
  analytics: Calls,
  { userId, rounds = 1 }: Order,
): { reported: Set<string>; done: Promise<unknown> } {
  const reported = new Set<string>();
  const ends = Array.from({ length: rounds }, () => CALLS)
    .flat()
    .map(
      ({ type, fields }) =>
        new Promise<void>((resolve) => {
          analytics[type]({ userId, ...fields }, (error) => {
            if (error !== undefined && error !== null) reported.add(type);
            resolve();
          });
        }),
    );
  return { reported, done: Promise.all(ends) };
}

function modern(packageName: string, Analytics: Modern, way: Way): Client {
  return {
    name: '@segment/analytics-node',
    version: versionOf(packageName),
    way,
    async run(order: Order): Promise<Outcome> {
      const analytics = new Analytics({
        writeKey: order.writeKey,
        host: order.proxy.url,
        maxEventsInBatch: way === 'batches' ? 15 : 1,
        httpRequestTimeout: order.timeout ?? CLIENT_TIMEOUT,
      });
      const { reported, done } = makeCalls(analytics, order);
      await analytics.closeAndFlush({ timeout: 80_000 });
      await done;
      return { reported };
    },
  };
}

interface LegacyOptions {
  readonly host: string;
  readonly flushAt: number;
  readonly timeout: number;
  readonly errorHandler: (error: unknown) => void;
}
type Legacy = new (writeKey: string, options: LegacyOptions) => Calls & { flush(): Promise<unknown> };

/** The first generation. Its first call is always sent alone and at once. */
function legacy(way: Way): Client {
  const Analytics = require('analytics-node') as Legacy;
  return {
    name: 'analytics-node',
    version: versionOf('analytics-node'),
    way,
    async run(order: Order): Promise<Outcome> {
      const analytics = new Analytics(order.writeKey, {
        host: order.proxy.url,
        flushAt: way === 'batches' ? 20 : 1,
        // For all tries of a request together, so it takes more.
        timeout: order.timeout ?? 3 * CLIENT_TIMEOUT,
        // Without it a failure is an unhandled rejection, which ends a Node program.
        errorHandler: () => {},
      });
      const { reported, done } = makeCalls(analytics, order);
      await analytics.flush();
      await done;
      return { reported };
    },
  };
}

/** Every library in both ways of sending. */
export const NODE_CLIENTS: readonly Client[] = [
  (way: Way) => legacy(way),
  (way: Way) => modern('segment-node-1', Node1, way),
  (way: Way) => modern('segment-node-2', Node2, way),
  (way: Way) => modern('segment-node-3.0', Node30, way),
  (way: Way) => modern('segment-node-3.1', Node31, way),
].flatMap((library) => WAYS.map(library));
