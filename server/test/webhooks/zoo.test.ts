import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { TlsOptions } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { createHttpClient, type HttpClientOptions } from '../../src/adapters/http-client/client.ts';
import { type DnsLookup, egressRules } from '../../src/adapters/http-client/egress.ts';
import { http, type RawServer, type RawServerOptions, startRawServer } from '../support/raw-server.ts';
import { passUntil, steadyTime } from '../support/steady-time.ts';
import { type Course, courseOf, START } from './course.ts';

steadyTime();

/** The first try and one for each delay of the schedule that fits into four hours. */
const TRIES = 18;

/** Says what an endpoint does with its nth request, counted from 0. */
type Habit = (socket: Socket, nth: number) => void;

const stops = new Set<() => Promise<void>>();

afterEach(async () => {
  await Promise.all([...stops].map((stop) => stop()));
  stops.clear();
});

interface Stay extends Course {
  readonly server: RawServer;
  /** Requests that the endpoint got. */
  readonly requests: number;
  /** The reason of every outcome, in order. */
  readonly outcomes: readonly string[];
}

/** One event at an endpoint with this habit, from its arrival to its end. */
async function visit(habit: Habit, options: VisitOptions = {}): Promise<Stay> {
  let nth = 0;
  const {
    tls,
    onConnection,
    scheme = tls ? 'https' : 'http',
    host = '127.0.0.1',
    isSlow = false,
    ...transportOptions
  } = options;
  const server = await startRawServer((socket) => habit(socket, nth++), {
    ...(tls && { tls }),
    ...(onConnection && { onConnection }),
  });
  const transport = createHttpClient({ egress: egressRules(['127.0.0.1/32']), ...transportOptions });
  try {
    const taken = courseOf(transport, `${scheme}://${host}:${server.port}/hook`);
    const course = await (isSlow ? hurried(taken) : taken);
    const outcomes = course.attempts.map(({ outcome }) => outcome.reason);
    return { ...course, server, requests: server.requests.length, outcomes };
  } finally {
    await transport.stop();
    await server.stop();
  }
}

interface VisitOptions extends RawServerOptions, Partial<HttpClientOptions> {
  readonly scheme?: string;
  readonly host?: string;
  /** The requests take seconds, which pass quickly. */
  readonly isSlow?: boolean;
}

/** Lets time pass until the course is over. */
async function hurried(taken: Promise<Course>): Promise<Course> {
  let isOver = false;
  const ended = taken.finally(() => {
    isOver = true;
  });
  await passUntil('the course is over', () => isOver);
  return ended;
}

const says =
  (...answers: readonly string[]): Habit =>
  (socket, nth) =>
    socket.write(answers[Math.min(nth, answers.length - 1)]!, 'latin1');

/** Writes a byte every 20 ms for as long as somebody listens. */
function dripping(socket: Socket, text: string): void {
  if (text === '' || socket.destroyed) return;
  socket.write(text[0]!);
  setTimeout(() => dripping(socket, text.slice(1)), 20);
}

const times = <Of>(n: number, what: Of): Of[] => Array.from({ length: n }, () => what);

const delivered = { owed: 1, delivered: 1, pending: 0, dead: {} };
const dead = (reason: string) => ({ owed: 1, delivered: 0, pending: 0, dead: { [reason]: 1 } });

describe('an endpoint that accepts', () => {
  it.each(['200 OK', '201 Created', '202 Accepted', '299 Fine'])('with %s has the event', async (status) => {
    const stay = await visit(says(http(status, 'thanks')));
    expect(stay).toMatchObject({ requests: 1, end: { kind: 'delivered' }, counts: delivered });
    expect(stay.outcomes).toEqual([`status_${status.slice(0, 3)}`]);
  });

  it('with 204 and no body has the event', async () => {
    const stay = await visit(says('HTTP/1.1 204 No Content\r\n\r\n'));
    expect(stay).toMatchObject({ requests: 1, outcomes: ['status_204'], counts: delivered });
  });

  it('with a 200 that is cut off after its head has the event', async () => {
    const stay = await visit((socket) =>
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly', () => socket.resetAndDestroy()),
    );
    expect(stay).toMatchObject({ requests: 1, outcomes: ['status_200'], counts: delivered });
  });

  it('with a 200 whose body drips has the event at once', async () => {
    const stay = await visit((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n');
      dripping(socket, 'x'.repeat(1000));
    });
    expect(stay).toMatchObject({ requests: 1, outcomes: ['status_200'], counts: delivered });
    // clock: a time that passes only while this process runs.
    expect(stay.attempts[0]!.latencyMs).toBeLessThan(1000);
  });

  it('and closes the connection to say that the answer is over has the event', async () => {
    const stay = await visit((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nall of it'));
    expect(stay).toMatchObject({ requests: 1, outcomes: ['status_200'], counts: delivered });
  });

  it('after an unasked 100 Continue has the event', async () => {
    const stay = await visit(says(`HTTP/1.1 100 Continue\r\n\r\n${http('200 OK')}`));
    expect(stay).toMatchObject({ requests: 1, outcomes: ['status_200'], counts: delivered });
  });
});

describe('an endpoint that refuses', () => {
  it.each([
    '301 Moved Permanently',
    '302 Found',
    '304 Not Modified',
    '307 Temporary Redirect',
    '308 Permanent Redirect',
    '400 Bad Request',
    '401 Unauthorized',
    '404 Not Found',
    '410 Gone',
    '413 Content Too Large',
    '422 Unprocessable Content',
  ])('with %s is asked once, and the event is a dead letter with the reason', async (status) => {
    const reason = `status_${status.slice(0, 3)}`;
    const stay = await visit(says(http(status, status.startsWith('304') ? '' : 'no')));
    expect(stay).toMatchObject({ requests: 1, end: { kind: 'dead', reason }, counts: dead(reason) });
    expect(stay.outcomes).toEqual([reason]);
  });

  it('by pointing to another place is not followed there', async () => {
    const elsewhere = await startRawServer((socket) => socket.write(http('200 OK')));
    stops.add(() => elsewhere.stop());
    const location = `Location: http://127.0.0.1:${elsewhere.port}/hook\r\n`;
    const stay = await visit(says(http('301 Moved Permanently', '', location)));
    expect(stay).toMatchObject({ requests: 1, counts: dead('status_301') });
    expect(elsewhere.sockets).toHaveLength(0);
  });
});

describe('an endpoint that fails', () => {
  it.each([
    '408 Request Timeout',
    '429 Too Many Requests',
    '500 Internal Server Error',
    '501 Not Implemented',
    '502 Bad Gateway',
    '503 Service Unavailable',
    '504 Gateway Timeout',
    '505 HTTP Version Not Supported',
    '599 Other',
  ])('with %s for ever is asked 18 times within four hours, and then no more', async (status) => {
    const stay = await visit(says(http(status, 'later')));
    expect(stay).toMatchObject({
      requests: TRIES,
      end: { kind: 'dead', reason: 'retry_window_over' },
      counts: dead('retry_window_over'),
    });
    expect(stay.outcomes).toEqual(times(TRIES, `status_${status.slice(0, 3)}`));
    expect(stay.sentAt.at(-1)).toBeLessThanOrEqual(4 * 3_600_000);
  });

  it('once is asked again and then has the event, with the same bytes', async () => {
    const stay = await visit(says(http('503 Busy'), http('200 OK')));
    expect(stay).toMatchObject({ requests: 2, outcomes: ['status_503', 'status_200'], counts: delivered });
    const [first, second] = stay.server.requests;
    expect(second!.body).toBe(first!.body);
    expect(second!.head).toBe(first!.head);
  });

  it.each([
    ['seconds', '90'],
    ['a date', new Date(START + 90_000).toUTCString()],
  ])('with 429 and Retry-After as %s is asked again when it says', async (_form, value) => {
    const stay = await visit(says(http('429 Busy', '', `Retry-After: ${value}\r\n`), http('200 OK')));
    expect(stay).toMatchObject({ requests: 2, outcomes: ['status_429', 'status_200'], counts: delivered });
    // Stores may put off a due time by a few milliseconds to merge it with others.
    expect(stay.sentAt[1]).toBeGreaterThanOrEqual(90_000);
    expect(stay.sentAt[1]).toBeLessThan(91_000);
  });

  it('with a Retry-After of a week is asked again after ten minutes', async () => {
    const week = http('503 Busy', '', 'Retry-After: 604800\r\n');
    const stay = await visit(says(week, week, http('200 OK')));
    expect(stay).toMatchObject({ requests: 3, counts: delivered });
    expect(stay.sentAt.map((at) => Math.round(at / 60_000))).toEqual([0, 10, 20]);
  });

  it('by resetting the connection in the middle of the head is asked again', async () => {
    const stay = await visit((socket) =>
      socket.write('HTTP/1.1 200 OK\r\nContent-Le', () => socket.resetAndDestroy()),
    );
    expect(stay).toMatchObject({ requests: TRIES, counts: dead('retry_window_over') });
    expect(stay.outcomes).toEqual(times(TRIES, 'connection_closed'));
  });

  it('and resets the connection in the middle of the body is taken at its status', async () => {
    const stay = await visit((socket) =>
      socket.write('HTTP/1.1 400 Bad\r\nContent-Length: 100\r\n\r\nbecause', () => socket.resetAndDestroy()),
    );
    expect(stay).toMatchObject({ requests: 1, outcomes: ['status_400'], counts: dead('status_400') });
  });

  it('by closing its half of the connection without a word is asked again', async () => {
    const stay = await visit((socket) => socket.end());
    expect(stay).toMatchObject({ requests: TRIES, counts: dead('retry_window_over') });
    expect(stay.outcomes).toEqual(times(TRIES, 'connection_closed'));
  });

  it.each([
    ['is not HTTP', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['is binary', '\u0000\u0001\u0002\u00ff\u00fe'],
    ['has a head that lies', 'HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n'],
    ['has a status of its own', 'HTTP/1.1 2xx OK\r\n\r\n'],
  ])('with an answer that %s is asked again', async (_what, garbage) => {
    const stay = await visit(says(garbage));
    expect(stay).toMatchObject({ requests: TRIES, counts: dead('retry_window_over') });
    expect(stay.outcomes).toEqual(times(TRIES, 'protocol_error'));
  });

  it('by not listening any more is asked again, and has the event when it listens', async () => {
    const server = await startRawServer(() => {});
    await server.stop();
    const transport = createHttpClient({ egress: egressRules(['127.0.0.1/32']) });
    stops.add(() => transport.stop());
    const course = await courseOf(transport, `http://127.0.0.1:${server.port}/`);
    expect(course.attempts.map(({ outcome }) => outcome.reason)).toEqual(times(TRIES, 'connection_refused'));
    expect(course.counts).toMatchObject(dead('retry_window_over'));
  });
});

describe('an endpoint that takes too long', () => {
  /** The first attempt was ended at its limit and not later than the client looks for such. */
  function expectTimedOutAt5s({ attempts: [first] }: Course): void {
    expect(first!.outcome.reason).toBe('timeout');
    expect(first!.latencyMs).toBeGreaterThanOrEqual(5000);
    // clock: the test itself lets this time pass.
    expect(first!.latencyMs).toBeLessThan(5100);
  }

  it('for the head of its answer is timed out at 5 s and asked again', async () => {
    const stay = await visit((socket, nth) => nth > 0 && socket.write(http('200 OK')), { isSlow: true });
    expect(stay).toMatchObject({ requests: 2, outcomes: ['timeout', 'status_200'], counts: delivered });
    expectTimedOutAt5s(stay);
  });

  it('because the head of its answer drips is cut off at 5 s and asked again', async () => {
    const drips: Habit = (socket, nth) => {
      if (nth > 0) socket.write(http('200 OK'));
      else dripping(socket, `HTTP/1.1 200 OK\r\n${'X-Slow: yes\r\n'.repeat(100)}\r\n`);
    };
    const stay = await visit(drips, { isSlow: true });
    expect(stay).toMatchObject({ requests: 2, outcomes: ['timeout', 'status_200'], counts: delivered });
    expectTimedOutAt5s(stay);
  });

  it('with the body of a refusal is taken at its status, with what came of it', async () => {
    const drips: Habit = (socket) => {
      socket.write('HTTP/1.1 400 Bad\r\nContent-Length: 1000\r\n\r\n');
      dripping(socket, 'x'.repeat(1000));
    };
    const stay = await visit(drips, { isSlow: true });
    expect(stay).toMatchObject({ requests: 1, outcomes: ['status_400'], counts: dead('status_400') });
    expect(stay.attempts[0]!.answer).toMatch(/^x{5,300}$/);
  });

  it('to shake hands is timed out at 5 s and asked again', async () => {
    const silent = await startRawServer(() => {});
    const transport = createHttpClient({ egress: egressRules(['127.0.0.1/32']) });
    const answered = hurried(courseOf(transport, `https://127.0.0.1:${silent.port}/`));
    // Let it shake hands with nobody once, then hang up for good.
    await silent.opened(2);
    await silent.stop();
    expectTimedOutAt5s(await answered);
    await transport.stop();
  });
});

describe('an endpoint that says too much', () => {
  const BLOCK = 'x'.repeat(1024 * 1024);

  /** 100 MB, for as long as somebody takes it. */
  function pours(head: string): Habit {
    return (socket) => {
      socket.write(`HTTP/1.1 ${head}\r\nContent-Length: ${100 * BLOCK.length}\r\n\r\n`);
      let left = 100;
      const pour = () => {
        while (left > 0 && !socket.destroyed) {
          left--;
          if (!socket.write(BLOCK)) {
            socket.once('drain', pour);
            return;
          }
        }
      };
      pour();
    };
  }

  /** The same again and again, for as long as somebody takes it. */
  function repeats(text: string): Habit {
    const block = text.repeat(Math.ceil(65_536 / text.length));
    return (socket) => {
      const more = () => {
        while (!socket.destroyed && socket.write(block, 'latin1'));
        socket.once('drain', more);
      };
      more();
    };
  }

  it.each([
    ['in interim answers without end', 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'],
    ['in interim answers without headers', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['in long interim answers', `HTTP/1.1 103 Early Hints\r\nLink: ${'x'.repeat(15_000)}\r\n\r\n`],
  ])('%s is cut off after 64 KB, and asked again', async (_what, text) => {
    const stay = await visit(repeats(text));
    expect(stay).toMatchObject({ requests: TRIES, counts: dead('retry_window_over') });
    expect(stay.outcomes).toEqual(times(TRIES, 'protocol_error'));
    // What the system takes before anybody reads it.
    for (const socket of stay.server.sockets) expect(socket.bytesWritten).toBeLessThan(20 * BLOCK.length);
  });

  it('in a head without end is cut off after 16 KB, and asked again', async () => {
    const stay = await visit((socket, nth) => {
      socket.write('HTTP/1.1 200 OK\r\n');
      repeats('X-More: yes\r\n')(socket, nth);
    });
    expect(stay.outcomes).toEqual(times(TRIES, 'protocol_error'));
  });

  it.each([
    ['trailers', '1\r\nx\r\n0\r\n', 'X-More: yes\r\n'],
    ['chunk extensions', '', `1;${'x'.repeat(100)}\r\nx\r\n`],
    ['chunks of one byte', '', '1\r\nx\r\n'],
    ['digits of a chunk', '', '0'],
  ])('in %s without end is taken at its status', async (_what, first, text) => {
    for (const [status, outcome] of [
      ['200 OK', 'status_200'],
      ['400 Bad', 'status_400'],
    ] as const) {
      const stay = await visit((socket, nth) => {
        socket.write(`HTTP/1.1 ${status}\r\nTransfer-Encoding: chunked\r\n\r\n${first}`);
        repeats(text)(socket, nth);
      });
      expect(stay).toMatchObject({ requests: 1, outcomes: [outcome] });
      expect(stay.server.sockets[0]!.bytesWritten).toBeLessThan(20 * BLOCK.length);
    }
  });

  it('with 200 has the event, and most of it is not read', async () => {
    const stay = await visit(pours('200 OK'));
    expect(stay).toMatchObject({ requests: 1, outcomes: ['status_200'], counts: delivered });
    expect(stay.server.sockets[0]!.bytesWritten).toBeLessThan(20 * BLOCK.length);
  });

  it('with 410 is a dead letter, and 4 KB of it are kept', async () => {
    const stay = await visit(pours('410 Gone'));
    expect(stay).toMatchObject({ requests: 1, outcomes: ['status_410'], counts: dead('status_410') });
    expect(stay.attempts[0]!.answer).toBe('x'.repeat(4096));
    expect(stay.server.sockets[0]!.bytesWritten).toBeLessThan(20 * BLOCK.length);
  });
});

describe('an endpoint whose certificate', () => {
  const pem = (name: string) => readFileSync(new URL(`../support/tls/${name}`, import.meta.url), 'utf8');
  const certified = (name: string): TlsOptions => ({ cert: pem(`${name}.pem`), key: pem(`${name}.key`) });

  it.each([
    ['is self-signed', 'self-signed', true],
    ['has expired', 'expired', true],
    ['is for another host', 'other-host', true],
    ['comes from an authority nobody knows', 'server', false],
  ])('%s is never sent a request, and tried for four hours', async (_how, name, isKnown) => {
    const ca = isKnown ? { ca: pem('ca.pem') } : {};
    const stay = await visit(says(http('200 OK')), { tls: certified(name), ...ca });
    expect(stay).toMatchObject({ requests: 0, counts: dead('retry_window_over') });
    expect(stay.sentAt).toHaveLength(TRIES);
    expect(stay.outcomes).toEqual(times(TRIES, 'certificate_untrusted'));
  });

  it('comes from the private authority of the settings is sent the event', async () => {
    const stay = await visit(says(http('200 OK')), { tls: certified('server'), ca: pem('ca.pem') });
    expect(stay).toMatchObject({ requests: 1, outcomes: ['status_200'], counts: delivered });
  });

  it('is not asked for because the port speaks no TLS is tried for four hours', async () => {
    const stay = await visit(says(http('200 OK')), {
      scheme: 'https',
      onConnection: (socket) => socket.write('220 smtp ready\r\n'),
    });
    expect(stay).toMatchObject({ requests: 0, counts: dead('retry_window_over') });
    expect(stay.outcomes).toEqual(times(TRIES, 'connection_failed'));
  });
});

describe('an endpoint whose name', () => {
  /** Answers the nth question with the nth entry, and from then on with the last. */
  function changing(...answers: readonly (readonly string[])[]): DnsLookup {
    let nth = 0;
    return (hostname, _options, done) => {
      const addresses = answers[Math.min(nth++, answers.length - 1)]!;
      const error = Object.assign(new Error(`ENOTFOUND ${hostname}`), { code: 'ENOTFOUND' });
      const found = addresses.map((address) => ({ address, family: 4 }));
      setImmediate(() => (found.length === 0 ? done(error, []) : done(null, found)));
    };
  }
  const host = 'hooks.example';

  it('has no address is tried for four hours', async () => {
    const stay = await visit(says(http('200 OK')), { host, lookup: changing([]) });
    expect(stay).toMatchObject({ requests: 0, counts: dead('retry_window_over') });
    expect(stay.outcomes).toEqual(times(TRIES, 'name_not_resolved'));
  });

  it('gets an address later has the event then', async () => {
    const stay = await visit(says(http('200 OK')), { host, lookup: changing([], [], ['127.0.0.1']) });
    expect(stay).toMatchObject({ requests: 1, counts: delivered });
    expect(stay.outcomes).toEqual(['name_not_resolved', 'name_not_resolved', 'status_200']);
  });

  it.each([
    ['a private address', ['10.0.0.5']],
    ['a metadata service', ['169.254.169.254']],
  ])('changes to %s is sent nothing from then on', async (_what, addresses) => {
    const stay = await visit((socket) => socket.end(http('503 Busy', '', 'Connection: close\r\n')), {
      host,
      lookup: changing(['127.0.0.1'], addresses),
    });
    expect(stay).toMatchObject({ requests: 1, counts: dead('egress_refused') });
    expect(stay.outcomes).toEqual(['status_503', 'egress_refused']);
  });
});
