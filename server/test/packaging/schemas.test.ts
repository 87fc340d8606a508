import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.ts';
import { readCompose } from './compose.ts';

/**
 * Knows the schemas. `.ci/run` installs `compose-spec` and `kubernetes-validate` from the registry of Python,
 * and says where.
 */
const python = process.env['MILLRACE_PYTHON'] || 'python3';
const hasSchemas = run('import compose_spec, kubernetes_validate').status === 0;

if (!hasSchemas)
  console.log(
    'left out: the schemas of compose.yaml and of Kubernetes, because python3 has no compose-spec and kubernetes-validate',
  );

/** Runs lines of Python, with a text on its standard input. */
function run(script: string, input = '', ...args: string[]) {
  return spawnSync(python, ['-c', script, ...args], { input, encoding: 'utf8' });
}

describe.runIf(hasSchemas)('what people deploy', () => {
  it('is a file of the Compose specification', () => {
    const script = 'import sys, compose_spec; compose_spec.PyCompose.from_json(sys.stdin.read())';
    const file = readCompose();
    expect(run(script, JSON.stringify(file))).toMatchObject({ status: 0, stderr: '' });
    const { a } = file.services;
    const wrong = { ...file, services: { ...file.services, a: { ...a, read_onli: true } } };
    expect(run(script, JSON.stringify(wrong)).stderr).toContain('read_onli');
  });

  it('is what the newest and an older Kubernetes take', () => {
    const script = `
import sys, yaml, kubernetes_validate
path, version, typo = sys.argv[1:]
for resource in yaml.safe_load_all(open(path).read().replace(typo, typo + 'x') if typo else open(path)):
    kubernetes_validate.validate(resource, version, strict=True)
`;
    const path = join(ROOT, 'deploy/kubernetes.yaml');
    for (const version of ['1.30', '1.37']) {
      expect(run(script, '', path, version, '')).toMatchObject({ status: 0, stderr: '' });
      expect(run(script, '', path, version, 'livenessProbe').stderr).toContain('livenessProbex');
    }
  });
});
