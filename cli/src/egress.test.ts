import { describe, expect, it } from 'vitest';
import { egressReport } from './egress.ts';
import { paintFor } from './paint.ts';

const paint = paintFor({ isTTY: false }, {});

describe('the report of millrace egress explain', () => {
  it('shows every address with its rule, the one that is tried first, and the verdict last', () => {
    const report = egressReport(
      {
        url: 'https://hooks.example/x',
        host: 'hooks.example',
        port: 443,
        verdict: 'allowed',
        addresses: [
          { address: '93.184.215.14', allowed: true, rule: 'public' },
          { address: '10.20.0.7', allowed: true, rule: 'egress.allow 10.20.0.0/16' },
        ],
        used: '93.184.215.14',
        proxy: 'proxy.internal:3128',
        message: 'requests are sent',
      },
      paint,
    );
    expect(report).toBe(`https://hooks.example/x  hooks.example, port 443

address        ruling   rule
93.184.215.14  allowed  public                     tried first
10.20.0.7      allowed  egress.allow 10.20.0.0/16

through the proxy proxy.internal:3128, which is asked for the address

allowed: requests are sent
`);
  });

  it('shows no table for a name without addresses', () => {
    const report = egressReport(
      {
        url: 'https://nowhere.example/',
        host: 'nowhere.example',
        port: 443,
        verdict: 'unresolved',
        addresses: [],
        message: 'nowhere.example does not resolve',
      },
      paint,
    );
    expect(report).toBe(`https://nowhere.example/  nowhere.example, port 443

unresolved: nowhere.example does not resolve
`);
  });
});
