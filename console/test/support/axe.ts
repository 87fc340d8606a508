import axe from 'axe-core';
import type { Page } from 'playwright-core';

/** Faults that axe finds in a page, as `rule: element`. Rules of WCAG 2.2 AA and the best practices. */
export async function axeViolations(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => (globalThis as unknown as { axe: typeof axe }).axe.run());
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 160)}`));
}
