import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { curlLine, greeting, localUrl } from './greeting.ts';
import { paintFor } from './paint.ts';

/** The arguments that a shell passes for the line, printed by a fake `curl`. */
function argumentsIn(shell: string, line: string): string[] {
  const script = `curl() { printf '%s\\n' "$@"; }\n${line}\n`;
  return execFileSync(shell, ['-c', script], { encoding: 'utf8', cwd: '/' }).trimEnd().split('\n');
}

describe('the line to paste', () => {
  it('comes out of sh and bash as it was meant', () => {
    for (const shell of ['sh', 'bash']) {
      for (const url of ['http://127.0.0.1:8080', 'http://[::1]:8080']) {
        expect(argumentsIn(shell, curlLine(url, 'dev'))).toEqual([
          '-u',
          'dev:',
          `${url}/v1/track`,
          '-d',
          '{"event":"Order Placed","userId":"u1","properties":{"total":9}}',
        ]);
      }
    }
  });

  it('is the only line with curl in what dev says when it is ready', () => {
    const facts = {
      version: '0.1.0',
      url: 'http://127.0.0.1:8080',
      consoleUrl: 'http://127.0.0.1:8080/sign-in#code=c0de',
      writeKey: 'dev',
      receiverUrl: 'http://127.0.0.1:4000',
      secret: 'dev-secret',
      data: '/var/lib/millrace',
    };
    const text = greeting(facts, paintFor({}, {}));
    expect(text.split('\n').filter((line) => line.includes('curl'))).toEqual([
      `  ${curlLine('http://127.0.0.1:8080', 'dev')}`,
    ]);
    for (const fact of Object.values(facts)) expect(text).toContain(fact);
    // A library in a page asks this address for its settings, and is told there where to send.
    expect(text).toContain("AnalyticsBrowser.load({ writeKey: 'dev', cdnURL: 'http://127.0.0.1:8080' })");
  });
});

describe('the address of a server', () => {
  it('is one that a client on this machine can use', () => {
    expect(localUrl('http://0.0.0.0:8080')).toBe('http://127.0.0.1:8080');
    expect(localUrl('http://[::]:8080')).toBe('http://[::1]:8080');
    expect(localUrl('http://192.0.2.1:80')).toBe('http://192.0.2.1:80');
  });
});
