import { chmodSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runVerb } from '../../../cli/test/program.ts';
import { makePlace, oneDestination, type Place, type Program, startServer } from '../support/program.ts';
import { startReceiver, type TestReceiver } from '../support/receiver.ts';

interface Report {
  readonly failures: number;
  readonly findings: readonly { readonly check: string; readonly verdict: string; readonly found: string }[];
}

describe('millrace doctor', () => {
  let receiver: TestReceiver;
  let place: Place;
  let program: Program;

  beforeAll(async () => {
    receiver = await startReceiver();
    place = makePlace(oneDestination([`${receiver.url}/in?key=hidden`]));
    program = await startServer(place);
    chmodSync(place.data, 0o700);
  });

  afterAll(async () => {
    await program.kill();
    await receiver.stop();
    place.remove();
  });

  const doctor = async (...args: string[]) => {
    const { code, out, err } = await runVerb(['doctor', '--data', place.data, '--json', ...args]);
    const report: Report = JSON.parse(out);
    const verdicts = Object.fromEntries(report.findings.map(({ check, verdict }) => [check, verdict]));
    return { code, err, out, report, verdicts };
  };

  it('finds a server that is well, and the way to its endpoint, which gets no request', async () => {
    const { code, err, out, verdicts } = await doctor('--config', place.config, '--url', program.url);
    expect(verdicts).toMatchObject({
      ...{ node: 'ok', configuration: 'ok', 'data folder': 'ok', 'disk sync': expect.any(String) },
      ...{ 'disk space': expect.any(String), server: 'ok', clock: 'ok', ledger: 'ok' },
      'endpoint 1 of crm': 'ok',
    });
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).not.toContain('hidden');
    expect(receiver.arrivals).toEqual([]);
  });

  it('ends with 1 where something does not work: a wrong file, and a server that cannot be found', async () => {
    const wrong = `${place.folder}/wrong.yaml`;
    writeFileSync(wrong, 'prot: 80\n');
    const closed = await startReceiver();
    await closed.stop();
    const { code, report, verdicts } = await doctor('--config', wrong, '--url', closed.url);
    expect(code).toBe(1);
    expect(verdicts).toMatchObject({ configuration: 'fail', server: 'fail', 'data folder': 'ok' });
    const found = report.findings.map((finding) => finding.found).join('\n');
    expect(found).toContain('wrong.yaml:1:1  prot  is not a known key; did you mean port?');
    expect(found).toContain(
      `server unreachable at ${closed.url} (ECONNREFUSED), but process ${program.pid} works on`,
    );
  });
});
