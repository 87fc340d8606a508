import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DestinationRecord } from '../server/src/model/settings.ts';
import { type Bench, run } from './processes.ts';

/**
 * The real program in `folder`: with data of its own unless given, and with one destination when there is a
 * port.
 */
export function startMillrace(
  folder: string,
  { data, port, root, env = {}, destinations = 1, sources = 1, paused = [], threads }: Started = {},
): Bench {
  const config = join(folder, 'millrace.yaml');
  writeFileSync(
    config,
    JSON.stringify({
      egress: { allow: ['127.0.0.0/8'] },
      ...(threads === undefined ? {} : { threads }),
      sources: sourceNames(sources).map((name) => ({ name, writeKeys: [name] })),
      destinations: [
        ...(port === undefined ? [] : destinationsTo(port, destinations)).map((to) => ({
          ...to,
          sources: sourceNames(sources),
        })),
        ...paused.map((to) => ({ ...to, paused: true })),
      ],
    }),
  );
  const fresh = mkdtempSync(join(folder, 'data-'));
  // As the image and the systemd unit start it.
  const args = [
    '--max-semi-space-size=16',
    'cli/bin/millrace.js',
    'start',
    '--config',
    config,
    '--data',
    data ?? fresh,
  ];
  return run([...args, '--host', '127.0.0.1', '--port', '0'], env, root);
}

interface Started {
  readonly data?: string;
  readonly port?: string | undefined;
  /** Another checkout, whose program is started instead. */
  readonly root?: string;
  readonly env?: Record<string, string>;
  /** How many destinations get every event. */
  readonly destinations?: number;
  /**
   * How many sources there are; all destinations take from all of them. Each has its name as its write key.
   */
  readonly sources?: number;
  /** Destinations that send nothing. */
  readonly paused?: readonly DestinationRecord[];
  /** Threads that send requests; as the program wants if absent. */
  readonly threads?: number | undefined;
}

/** `bench`, `bench-1` and so on. */
export function sourceNames(n: number): string[] {
  return Array.from({ length: n }, (_, nth) => (nth === 0 ? 'bench' : `bench-${nth}`));
}

export function destinationsTo(port: string, n: number) {
  return Array.from({ length: n }, (_, nth) => ({
    ...destination(port),
    ...(nth === 0 ? {} : { name: `crm-${nth}` }),
  }));
}

export function destination(port: string) {
  const endpoints = [{ url: `http://127.0.0.1:${port}/in`, headers: {} }];
  const settings = { endpoints, sharedSecret: 'secret', format: 'documented', success: 'any' } as const;
  return { name: 'crm', type: 'webhooks', sources: ['bench'], enabled: true, settings } as const;
}
