// check_speedscope.mjs FOLDER TRACE PICTURE: FOLDER holds node_modules with speedscope and playwright-core.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'

const [folder, trace, picture] = process.argv.slice(2)
const modules = path.join(path.resolve(folder ?? '.'), 'node_modules')
const release = path.join(modules, 'speedscope/dist/release')
const browserFile = process.env.CHROMIUM ?? '/usr/bin/chromium'
for (const needed of [release, path.join(modules, 'playwright-core'), browserFile, trace ?? 'TRACE']) {
  if (!fs.existsSync(needed)) {
    console.log(`[skipped] no ${needed}`)
    process.exit(77)
  }
}
const { chromium } = await import(path.join(modules, 'playwright-core/index.mjs'))

const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' }
const server = http.createServer((request, response) => {
  const name = decodeURIComponent(new URL(request.url, 'http://localhost').pathname)
  const file = name === '/trace' ? trace : path.join(release, path.normalize(name === '/' ? '/index.html' : name))
  if (!fs.existsSync(file)) return response.writeHead(404).end()
  response.writeHead(200, { 'content-type': types[path.extname(file)] ?? 'application/octet-stream' })
  fs.createReadStream(file).pipe(response)
})
await new Promise(done => server.listen(0, '127.0.0.1', done))
const site = `http://127.0.0.1:${server.address().port}`

const browser = await chromium.launch({ executablePath: browserFile, args: ['--no-sandbox'] })
const page = await browser.newPage({ viewport: { width: 1400, height: 800 } })
const complaints = []
page.on('pageerror', error => complaints.push(error.message))
page.on('dialog', dialog => { complaints.push(dialog.message()); dialog.dismiss() })
page.on('console', line => {
  // The driver of a machine without a GPU complains about itself.
  if (['error', 'warning'].includes(line.type()) && !line.text().includes('GL Driver')) complaints.push(line.text())
})
await page.goto(`${site}/#profileURL=${encodeURIComponent(site + '/trace')}&title=trace`)
try {
  await page.waitForFunction(() => document.body.innerText.includes('Sandwich'), null, { timeout: 60000 })
} catch {
  complaints.push('speedscope shows no profile within a minute')
}
await page.waitForTimeout(2000)
if (picture) await page.screenshot({ path: picture })
await browser.close()
server.close()
for (const line of complaints.slice(0, 10)) console.log(line)
console.log(`${trace}: ${complaints.length} complaints`)
process.exit(complaints.length > 0 ? 1 : 0)
