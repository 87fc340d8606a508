import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { runVerb, startVerb, type Verb } from '../../../cli/test/program.ts';
import { send } from '../support/calls.ts';
import {
  makePlace,
  oneDestination,
  type Place,
  type Program,
  startProgram,
  startServer,
} from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

/**
 * A C0 and a C1 control sequence, direction overrides and isolates, a forged second line, and invisible
 * characters.
 */
const BAD =
  '\u001b[2J\u009b2J\u0085\u202e\u2066\u200f\u061c\u2028\u2029\u200b\u3164\u{e0041}\r\nmillrace: all is well';
/** The program writes line feeds itself; no other character of `BAD` may appear in its output. */
const UNSEEN = /[\p{Cf}\p{Zl}\p{Zp}\u3164]|(?!\n)\p{Cc}/u;
const FORGED = /^millrace: all is well/m;

const ofUser = (messageId: string) => ({
  ...{ messageId, userId: `u${BAD}`, event: `Order${BAD}`, properties: { [`p${BAD}`]: BAD } },
});

describe('text of a stranger', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    receiver = await startReceiver({ answer: (response) => void response.writeHead(410).end(BAD) });
    place = makePlace(oneDestination([`${receiver.url}/in`]));
    program = await startServer(place, { env: { MILLRACE_LOG: 'debug' } });
    await send(program.url, '/v1/track', ofUser(`m1${BAD}`));
    await send(program.url, '/v1/track', { event: `Nobody${BAD}` });
    await receiver.count(1);
    await program.saw(/delivery\.settled/);
  });

  afterAll(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  const ofServer = () => ['--url', program.url, '--data', place.data];
  const verbs: Verb[] = [];
  afterEach(async () => {
    for (const verb of verbs.splice(0)) await verb.stop();
  });

  function typed(...args: string[]): Verb {
    const verb = startVerb(args);
    verbs.push(verb);
    return verb;
  }

  function expectVisible(what: string, text: string): void {
    expect([what, UNSEEN.exec(text)?.[0], FORGED.exec(text)?.[0]]).toEqual([what, undefined, undefined]);
  }

  it('can be seen in every output of the program, as JSON too, and forges no line', async () => {
    const verbs = [['status'], ['trace', `m1${BAD}`], ['deliveries'], ['events'], ['events', '--event', BAD]];
    const ways = verbs.flatMap((verb) => [verb, [...verb, '--json']]);
    for (const args of [...ways, ['trace', BAD], ['pause', BAD], ['export']]) {
      const { out, err } = await runVerb([...args, ...ofServer()]);
      expect(out + err).not.toBe('');
      expectVisible(args.join(' '), out + err);
      if (args.at(-1) !== '--json') continue;
      for (const line of out.split('\n')) if (line !== '') JSON.parse(line);
    }
    const { out } = await runVerb(['events', '--json', ...ofServer()]);
    expect(JSON.parse(out)).toMatchObject({ event: { event: `Order${BAD}`, userId: `u${BAD}` } });
  });

  it('can be seen in what is shown live', async () => {
    const ways = [['tail'], ['tail', '--body'], ['tail', '--json', '--body']];
    const tails = ways.map((way) => typed(...way, ...ofServer()));
    await Promise.all(tails.map((tail) => tail.says('err', /watching/)));
    await send(program.url, '/v1/track', ofUser(`m2${BAD}`));
    await Promise.all(tails.map((tail) => tail.says('out', /dead/)));
    for (const { out, err } of await Promise.all(tails.map((tail) => tail.stop())))
      expectVisible('tail', out + err);
  });

  it('can be seen in the log', () => {
    const lines = program.out.stderr.split('\n').filter((line) => line.startsWith('{'));
    expect(lines.length).toBeGreaterThan(2);
    for (const line of lines) JSON.parse(line);
    expect(program.out.stderr).toContain('m1');
    expectVisible('log', program.out.stdout + program.out.stderr);
  });

  it('can be seen in the output of millrace dev', async () => {
    const listen = typed('listen', '--port', '0', '--body');
    const [, url = ''] = await listen.says('err', /listens on (\S+),/);
    const dev = await startProgram({
      ...{ args: ['dev', '--port', '0', '--data', `${place.data}-dev`], env: { MILLRACE_LOG: 'debug' } },
    });
    await send(dev.url, '/v1/track', ofUser(`m3${BAD}`), { writeKey: 'dev' });
    await dev.saw(/delivery\.settled/);
    await fetch(url, { method: 'POST', body: JSON.stringify(ofUser('m4')), headers: { 'webhook-id': 'm4' } });
    await fetch(url, { method: 'POST', body: `no JSON ${BAD}` });
    await listen.says('out', /no JSON/);
    const { out, err } = await listen.stop();
    expectVisible('listen', out + err);
    await dev.stop();
    expectVisible('dev', dev.out.stdout + dev.out.stderr);
  });
});
