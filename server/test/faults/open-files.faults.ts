import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { track } from '../support/calls.ts';
import { makePlace, type Place, type Program, runProgram, startServer } from '../support/program.ts';

/** Limit of open files for the program: a few more than it needs by itself. */
const OPEN_FILES = 100;

/** Number of calls that fills the write-ahead log until a thread starts to copy it, which opens files. */
const CALLS = 300;

describe('a server without files left to open', () => {
  let place: Place;
  let program: Program;
  const idle: Socket[] = [];
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });

  afterEach(async () => {
    agent.destroy();
    for (const socket of idle) socket.destroy();
    await program.kill();
    place.remove();
  });

  /** Sends a call over one connection, which is opened before all others. */
  function post(call: object): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Basic ${btoa('wk:')}` };
      const sent = request(`${program.url}/v1/track`, { method: 'POST', agent, headers });
      sent.once('error', reject);
      sent.once('response', (response) => {
        response.resume().once('end', () => resolve(response.statusCode));
      });
      sent.end(JSON.stringify(call));
    });
  }

  it('stores every call all the same', async () => {
    place = makePlace('sources: [{ name: website, writeKeys: [wk] }]\n');
    program = await startServer(place, { under: ['sh', '-c', `ulimit -n ${OPEN_FILES}; exec "$@"`, 'sh'] });
    expect(await post(track('first'))).toBe(200);
    const { port } = new URL(program.url);
    for (let nth = 0; nth < 2 * OPEN_FILES; nth++) {
      idle.push(connect({ port: Number(port), host: '127.0.0.1' }).on('error', () => {}));
    }
    for (let nth = 0; nth < CALLS; nth++) {
      const properties = { filling: 'x'.repeat(10_000) };
      expect(await post(track(`m${nth}`, { properties }))).toBe(200);
    }
    for (const socket of idle) socket.destroy();
    await program.stop();
    program = await startServer(place);
    const status = await runProgram({
      args: ['status', '--json', '--url', program.url],
      env: { MILLRACE_DATA: place.data },
    });
    expect(JSON.parse(status.stdout)).toMatchObject({
      sources: { website: { received: CALLS + 1, accepted: CALLS + 1 } },
    });
  });
});
