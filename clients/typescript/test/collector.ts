import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { chanceOf } from '../../../server/test/support/disk-faults/random.ts';
import { SEED } from '../../../server/test/support/runs.ts';
import { within } from '../../../server/test/support/until.ts';

/** One request of a client. */
export interface Collected {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Envelope;
}

export interface Envelope {
  readonly batch: readonly Item[];
  readonly sentAt: string;
  readonly writeKey?: string;
  readonly context: { readonly library: { readonly name: string; readonly version: string } };
}

export interface Item {
  readonly messageId: string;
  readonly type: string;
  readonly timestamp: string;
  readonly [field: string]: unknown;
}

/** A server on a real socket that takes batches, or answers what a test wants. */
export interface Collector {
  readonly url: string;
  readonly requests: readonly Collected[];
  /** All items of all requests, in order. */
  readonly items: readonly Item[];
  until(condition: () => boolean): Promise<void>;
  stop(): Promise<void>;
}

/** `nth` counts requests from 0. */
export type AnswerWith = (response: ServerResponse, request: Collected, nth: number) => void;

const STORED = '{"success":true}';

export async function startCollector(
  answer: AnswerWith = (response) => response.end(STORED),
): Promise<Collector> {
  const requests: Collected[] = [];
  const watchers = new Set<() => void>();
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const part of request.setEncoding('utf8')) text += String(part);
    const collected = {
      method: request.method!,
      path: request.url!,
      headers: request.headers,
      body: (text === '' ? {} : JSON.parse(text)) as Envelope,
    };
    requests.push(collected);
    answer(response, collected, requests.length - 1);
    for (const watch of watchers) watch();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    get items() {
      return requests.flatMap(({ body }) => body.batch);
    },
    until: (condition) => {
      const reached = new Promise<void>((resolve) => {
        const look = () => {
          if (!condition()) return;
          watchers.delete(look);
          resolve();
        };
        watchers.add(look);
        look();
      });
      const describe = () => `${condition}; ${requests.length} have come`;
      return within('the requests of a client are as wanted', reached, describe);
    },
    async stop() {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, 'close');
    },
  };
}

/** Answers the first requests with these statuses, one each, and the rest well. */
export function statuses(...list: readonly number[]): AnswerWith {
  return (response, _, nth) => {
    response.statusCode = list[nth] ?? 200;
    response.end(
      response.statusCode === 200 ? STORED : '{"success":false,"code":"test","message":"As wanted."}',
    );
  };
}

/** Random numbers of the run's seed. */
export const random = chanceOf(SEED).next;

/** A clock whose waits between tries take a thousandth of their time. */
export const FAST = { now: Date.now, random, scale: 0.001 };
