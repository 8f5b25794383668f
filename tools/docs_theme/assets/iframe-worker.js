/* Lets the search work on pages that the browser reads from files. A browser starts no worker
   there, so this class runs the worker's script in a hidden frame, on the page's thread. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const script = new URL(address, document.baseURI)
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inside = frame.contentWindow
      const waiting = []
      let ready = false
      this.postMessage = data => {
        if (ready) inside.dispatchEvent(new MessageEvent("message", { data }))
        else waiting.push(data)
      }
      this.terminate = () => frame.remove()
      // The script answers by postMessage, which in a frame would send to the frame itself.
      inside.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        if (this.onmessage) this.onmessage(event)
      }
      const run = source => new Promise((resolve, reject) => {
        const element = inside.document.createElement("script")
        element.src = new URL(source, script).href
        element.onload = resolve
        element.onerror = reject
        inside.document.body.appendChild(element)
      })
      inside.importScripts = (...sources) =>
        sources.reduce((last, source) => last.then(() => run(source)), Promise.resolve())
      run(script).then(() => {
        ready = true
        waiting.splice(0).forEach(this.postMessage)
      })
    }
  }
}
