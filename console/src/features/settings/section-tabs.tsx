import { Link } from '@tanstack/react-router';
import { PageTabs } from '../../ui/page.tsx';

const SECTIONS = [
  { to: '/settings', label: 'Access' },
  { to: '/settings/alerts', label: 'Alerts' },
  { to: '/settings/audit', label: 'Changes' },
  { to: '/settings/configuration', label: 'Configuration' },
  { to: '/settings/system', label: 'System' },
] as const;

/** The pages of the settings. */
export function SettingSections() {
  return (
    <PageTabs label="Settings">
      {SECTIONS.map(({ to, label }) => (
        <Link key={to} to={to} activeOptions={{ exact: true, includeSearch: false }}>
          {label}
        </Link>
      ))}
    </PageTabs>
  );
}
